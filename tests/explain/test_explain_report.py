"""`wenzhen explain`: the folder, the page and what is refused."""

import json
import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from wenzhen.cli import main
from wenzhen.errors import run
from wenzhen.explain import drawing, page, saturation

FIGURES = {
    "saturation": ["saturation", "saturation-model"],
    "positions": ["positions-table", "positions-rotation", "positions-products"],
    "masks": ["masks"],
    "attention": ["attention-alignment", "attention-encoder", "attention-decoder", "attention-cross"],
}


class Addresses(HTMLParser):
    """Collects what a page loads or leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]


@pytest.fixture(scope="module")
def folder(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return everything about the untrained model, drawn with missing glyphs counted as errors."""
    folder = tmp_path_factory.mktemp("explained") / "out"
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.filterwarnings("error", message=".*[Gg]lyph")
        patch.setattr(saturation, "MODEL_SCALES", (1.0, 16.0))
        patch.setattr(drawing, "RESOLUTION", 30)
        arguments = ["--question", "痛😀龘$x$<b>", "--answer", "多喝水。"]
        assert main(["explain", "all", str(model_folder), *arguments, "--output", str(folder)]) == 0
    return folder


def test_all_files_are_there(folder: Path) -> None:
    figures = [name for names in FIGURES.values() for name in names]
    expected = {f"{name}.{kind}" for name in figures for kind in ("png", "svg")}
    expected |= {f"{topic}.json" for topic in FIGURES} | {"index.html", "explain.json"}
    assert {path.name for path in folder.iterdir()} == expected
    for name in figures:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
        assert "<text" not in svg


def test_page_needs_nothing_else_and_shows_every_figure(folder: Path) -> None:
    text = (folder / "index.html").read_text(encoding="utf-8")
    addresses = Addresses()
    addresses.feed(text)
    images = [address for address in addresses.found if address.startswith("data:image/svg+xml;base64,")]
    others = set(addresses.found) - set(images)
    assert others == {f"#{topic}" for topic in FIGURES}
    assert "url(" not in text
    assert images == [page.data_uri(folder / f"{name}.svg") for names in FIGURES.values() for name in names]
    assert "痛😀龘$x$&lt;b&gt;" in text
    assert "do not explain" in text


def test_page_tells_the_numbers(folder: Path) -> None:
    summary = json.loads((folder / "explain.json").read_text(encoding="utf-8"))
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert page.number(summary["positions"]["largest_rotation_error"]) in text
    assert page.number(summary["saturation"]["largest_probability"]["dot"]["64"]) in text
    assert page.percent(summary["masks"]["hidden"]["decoder_padded"]) in text


def test_numbers_stand_in_their_files(folder: Path) -> None:
    numbers: dict[str, Any] = {
        topic: json.loads((folder / f"{topic}.json").read_text(encoding="utf-8")) for topic in FIGURES
    }
    assert {curve["head_dim"] for curve in numbers["saturation"]["softmax"]} == {16, 64, 256}
    assert max(numbers["positions"]["rotation_errors"]) < 1e-5
    assert numbers["masks"]["decoder"][0][0][:3] == [1, 0, 0]
    for layer in numbers["attention"]["cross"]:
        for row in layer[0]:
            assert sum(row) == pytest.approx(1, abs=1e-3)


def test_output_is_replaced_only_where_it_is_ours_and_asked_for(
    tmp_path: Path, tokenizer_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "RESOLUTION", 30)
    output = tmp_path / "out"
    arguments = [
        "explain",
        "masks",
        str(tokenizer_folder),
        "--question",
        "痛",
        "--answer",
        "休息",
        "--output",
        str(output),
    ]
    assert run(main, [*arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["page"] == str(output / "index.html")
    assert printed["masks"]["batch"] == 2
    assert run(main, arguments) == 2
    assert "add --overwrite" in capsys.readouterr().err
    before = (output / "masks.svg").read_bytes()
    assert run(main, [*arguments, "--overwrite"]) == 0
    assert capsys.readouterr().out.startswith(f"page: {output / 'index.html'} ")
    # The same numbers give the same file.
    assert (output / "masks.svg").read_bytes() == before
    (output / "notes.txt").write_text("mine")
    assert run(main, [*arguments, "--overwrite"]) == 2
    assert (output / "notes.txt").read_text() == "mine"


def test_learned_positions_are_told_plainly(model_folder: Path, tmp_path: Path) -> None:
    import torch

    from wenzhen.explain.drawing import save, style
    from wenzhen.explain.drawing.positions import draw
    from wenzhen.explain.positions import measure_positions
    from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
    from wenzhen.models.transformer.modeling_transformer import WenzhenLearnedPositions

    torch.manual_seed(0)
    shape = WenzhenConfig(d_model=8, attention_heads=1, max_position_embeddings=20)
    measured = measure_positions(WenzhenLearnedPositions(shape))
    with style():
        figures = draw(measured)
        for name, figure in figures.items():
            save(figure, tmp_path, name)
    page.write_page(
        tmp_path / "index.html", {"positions": {"model": "m", **measured.summary()}}, {"positions": list(figures)}
    )
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Learned positions have no rotation" in text
    assert "nan" not in re.sub(r"base64,[^\"]*", "", text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["atention"], "no topic and no model folder atention; topics: saturation, positions, masks, attention, all"),
        (["attention", "nowhere"], "no model folder nowhere; make one"),
        (["attention"], "attention needs a MODEL, and there is no outputs/quickstart"),
        (["masks"], "masks needs a MODEL"),
        (["attention", "."], "is no model folder: it lacks"),
        (["masks", "."], "is no model folder: it lacks"),
        (["positions", "--question", "痛"], "--question goes with masks, attention or all, not with positions"),
        (["masks", ".", "--question", " "], "the question is empty"),
        (["masks", ".", "--answer", ""], "the answer is empty"),
    ],
)
def test_wrong_requests_get_one_clear_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(main, ["explain", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_loads_no_heavy_library() -> None:
    script = (
        "import sys; from wenzhen.cli import main\n"
        "try: main(['explain', *sys.argv[1:]])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'transformers', 'matplotlib'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script, "--help"], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0972, "0.097"), (256.0, "256"), (12345.0, "1.2×10⁴"), (7.06e-8, "7.1×10⁻⁸"), (0, "0"), (None, "∞")],
)
def test_numbers_are_written_short(value: float | None, text: str) -> None:
    assert page.number(value) == text


def test_lines_of_chinese_are_joined() -> None:
    assert page.join_lines("咳嗽\n头痛，\n12 天\nsoftmax\n的") == "咳嗽头痛，12 天\nsoftmax\n的"
