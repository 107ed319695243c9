"""TensorBoard and trackio."""

import json
from collections.abc import Callable
from importlib import util
from pathlib import Path

import pytest

from helpers import ROOT, tiny_run
from processes import start
from wenzhen.errors import UsageError
from wenzhen.recipe import Recipe
from wenzhen.training import trackers
from wenzhen.training.log import read_log
from wenzhen.training.output import CONTENTS
from wenzhen.training.run import train

MakeRecipe = Callable[..., Recipe]
SHORT = ("training.max_steps=4", "training.eval_steps=2", "training.logging_steps=1", "evaluation.examples=1")


@pytest.mark.parametrize("name", ["tensorboard", "trackio"])
def test_a_tracker_that_is_not_installed(
    make_recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda module: None)
    with pytest.raises(UsageError, match=f"report_to is {name}, which is not installed; run: pip install {name}"):
        train(make_recipe(f"output={tmp_path / 'model'}", f"training.report_to={name}"))
    assert not (tmp_path / "model").exists()
    trackers.check_tracker("none")


@pytest.mark.skipif(not util.find_spec("tensorboard"), reason="tensorboard is not installed")
def test_tensorboard_gets_what_the_log_gets_and_the_speed(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    recipe = make_recipe(f"output={tmp_path / 'model'}", *SHORT, "training.report_to=tensorboard")
    output = train(recipe)
    assert "tensorboard" in CONTENTS
    assert not list((output / "checkpoints").rglob("events.*"))
    [file] = (output / "tensorboard").iterdir()
    events = EventAccumulator(str(file)).Reload()
    log = read_log(output)
    for tag, key in (("train/loss", "loss"), ("eval/loss", "eval_loss"), ("train/learning_rate", "learning_rate")):
        expected = [(entry["step"], pytest.approx(entry[key], rel=1e-6)) for entry in log if key in entry]
        assert [(event.step, event.value) for event in events.Scalars(tag)] == expected
    assert all(event.value > 0 for event in events.Scalars("train/pairs_per_second"))
    # What patients wrote is in the log, and nowhere else.
    examples = json.loads((output / "training_log.jsonl").read_text(encoding="utf-8").splitlines()[3])["examples"]
    assert examples[0]["question"].encode() not in file.read_bytes()
    # The folder is still ours to replace, and a resumed run adds to it.
    train(recipe, overwrite=True)
    (output / "model.safetensors").unlink()
    (output / "checkpoints" / "checkpoint-4" / "trainer_state.json").unlink()
    train(recipe, resume=True)
    assert len(list((output / "tensorboard").iterdir())) == 2


@pytest.mark.skipif(not util.find_spec("trackio"), reason="trackio is not installed")
def test_trackio_keeps_a_run_on_this_machine(dataset: Path, tokenizer_folder: Path, tmp_path: Path) -> None:
    words = ["-m", "wenzhen", "train", str(ROOT / "recipes/quickstart.yaml"), *tiny_run(dataset, tokenizer_folder)]
    words += [*SHORT, "training.report_to=trackio", "evaluation.questions=0", f"output={tmp_path / 'model'}"]
    program = start(words, tmp_path / "process", {"TRACKIO_DIR": str(tmp_path / "trackio")})
    assert program.wait() == 0, program.said()
    assert [path.name for path in (tmp_path / "trackio").glob("wenzhen*")]
