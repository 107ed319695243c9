"""The loss figure."""

from pathlib import Path
from typing import Any

import matplotlib.figure
import pytest

from wenzhen.training.figure import draw_losses

RUNS = {
    # Twice the batch, half the steps, the same pairs.
    "小批": [
        {"step": 2, "epoch": 0.5, "loss": 3.0},
        {"step": 4, "epoch": 1.0, "loss": 2.0},
        {"step": 4, "epoch": 1.0, "eval_loss": 2.5, "eval_padded_loss": 1.5},
    ],
    "大批": [
        {"step": 1, "epoch": 0.5, "loss": 3.5},
        {"step": 2, "epoch": 1.0, "loss": 2.5},
        {"step": 2, "epoch": 1.0, "eval_loss": 2.75, "eval_padded_loss": 1.75},
    ],
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[matplotlib.figure.Figure]:
    """Keep the figures that are saved."""
    figures: list[matplotlib.figure.Figure] = []
    save = matplotlib.figure.Figure.savefig

    def keep(figure: matplotlib.figure.Figure, *args: Any, **kwargs: Any) -> None:
        figures.append(figure)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", keep)
    return figures


def curves(figure: matplotlib.figure.Figure) -> list[dict[str, list[tuple[float, float]]]]:
    """Return each panel's curves by what the legend calls them."""
    return [
        {str(line.get_label()): [tuple(map(float, point)) for point in line.get_xydata()] for line in axes.lines}
        for axes in figure.axes
    ]


@pytest.mark.filterwarnings("error")
def test_runs_of_different_batch_sizes_lie_over_each_other(
    tmp_path: Path, drawn: list[matplotlib.figure.Figure]
) -> None:
    draw_losses(RUNS, tmp_path / "figures" / "loss.png")
    assert (tmp_path / "figures" / "loss.png").read_bytes().startswith(b"\x89PNG")
    losses, padded = curves(drawn[0])
    assert losses == {
        "training, 小批": [(0.5, 3.0), (1.0, 2.0)],
        "validation, 小批": [(1.0, 2.5)],
        "training, 大批": [(0.5, 3.5), (1.0, 2.5)],
        "validation, 大批": [(1.0, 2.75)],
    }
    assert padded == {"validation, 小批": [(1.0, 1.5)], "validation, 大批": [(1.0, 1.75)]}
    left, right = drawn[0].axes
    assert (left.get_xlabel(), left.get_ylabel()) == ("epochs", "loss (nats per real token)")
    assert "padding" in right.get_ylabel()
    colors = [[line.get_color() for line in axes.lines] for axes in drawn[0].axes]
    assert colors[0][0] == colors[0][1] == colors[1][0] != colors[0][2] == colors[0][3] == colors[1][1]


def test_one_run_needs_no_name(tmp_path: Path, drawn: list[matplotlib.figure.Figure]) -> None:
    draw_losses({"小批": RUNS["小批"]}, tmp_path / "loss.png")
    losses, padded = curves(drawn[0])
    assert (set(losses), set(padded)) == ({"training", "validation"}, {"validation"})


def test_a_log_without_losses_gives_an_empty_figure(tmp_path: Path, drawn: list[matplotlib.figure.Figure]) -> None:
    draw_losses({"run": []}, tmp_path / "loss.png")
    assert curves(drawn[0]) == []
