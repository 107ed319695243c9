"""However a run is spread over processes and forward passes, it is the same run: through the real command."""

from pathlib import Path

import pytest
from spreads import SPREADS, STEPS, Outcome, train


@pytest.mark.parametrize(
    ("run", "smoothing", "spreads"),
    [
        ("random", 0.0, ["2 x 4", "8 x 1", "two processes"]),
        ("random, few pairs", 0.1, ["8 x 1", "two processes x 2"]),
        ("grouped", 0.1, ["2 x 4", "two processes x 2, FSDP"]),
        ("token budget", 0.0, ["2 x 4", "8 x 1"]),
    ],
)
def test_losses_gradient_norms_and_weights_are_the_same_however_a_run_is_spread(
    run: str, smoothing: float, spreads: list[str], dataset: Path, tokenizer_folder: Path, tmp_path: Path
) -> None:
    def outcome(spread: str) -> Outcome:
        overrides = [f"training.label_smoothing_factor={smoothing}"]
        return train(run, spread, tmp_path / spread, dataset, tokenizer_folder, *overrides)

    reference = outcome(next(iter(SPREADS)))
    assert len(reference.losses) == STEPS
    assert reference.losses[-1] < reference.losses[0]
    for spread in spreads:
        distance = outcome(spread).distance(reference)
        assert distance == {name: pytest.approx(0, abs=1e-5) for name in distance}
