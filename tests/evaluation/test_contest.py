"""Models side by side, through the command: answers, report, and what happens to both on the way."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from processes import start
from wenzhen.cli import main
from wenzhen.errors import RunError, UsageError
from wenzhen.evaluation import contest
from wenzhen.evaluation.contest import Contender, contenders_of
from wenzhen.evaluation.floors import FLOORS
from wenzhen.evaluation.predictions import read_predictions
from wenzhen.recipe import load_recipe


@pytest.fixture(scope="module")
def models(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders of the same untrained model, one with a name that means something to Markdown and HTML."""
    folder = tmp_path_factory.mktemp("models")
    return [Path(shutil.copytree(model_folder, folder / name)) for name in ("small", "<b>$x$|_y_")]


@pytest.fixture(scope="module")
def compared(models: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        python, *words = command
        assert python == sys.executable
        return subprocess.CompletedProcess(command, start(words, folder / "process").wait())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contest, "subprocess", SimpleNamespace(run=run, DEVNULL=subprocess.DEVNULL))
        assert main(["compare", *map(str, models), "--limit", "24", "--output", str(folder / "out")]) == 0
    return folder / "out"


class Page(HTMLParser):
    """Collects the tags and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def test_result_holds_every_system_and_how_they_stand(compared: Path, models: list[Path]) -> None:
    result = json.loads((compared / "comparison.json").read_text(encoding="utf-8"))
    assert result["models"] == [folder.name for folder in models]
    assert list(result["systems"]) == [*result["models"], *FLOORS]
    one, two = (result["systems"][name] for name in result["models"])
    assert one["rougeL_char"] == two["rougeL_char"]
    assert one["intervals"] == two["intervals"]
    assert one["network"] == "transformer"
    # Against every floor, and the second against the first: the same model, so nothing is better.
    assert len(result["differences"]) == 2 * len(FLOORS) + 1
    between = result["differences"][-1]
    assert (between["system"], between["other"]) == (models[1].name, models[0].name)
    assert all(values == [0, 0, 0] for values in between["differences"].values())


def test_page_holds_everything_in_itself_and_takes_no_text_for_markup(compared: Path, models: list[Path]) -> None:
    text = (compared / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)
    # Quality and speed: these models have learned nothing, so there are no losses.
    assert page.tags.count("img") == 2
    assert "b" in page.tags and "<b>$x$|_y_" not in text
    assert "&lt;b&gt;$x$|_y_" in text
    for prediction in read_predictions(contender(models[0]).place(compared) / "predictions.jsonl")[:24]:
        if prediction.question in text:
            assert prediction.answer is not None and prediction.answer in text


def contender(folder: Path) -> Contender:
    return Contender(folder.name, folder, None)


def test_markdown_report_has_whole_tables_and_its_figures(compared: Path) -> None:
    text = (compared / "report.md").read_text(encoding="utf-8")
    for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (compared / name).read_bytes().startswith(b"\x89PNG")
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(cells) == 1, table


def test_the_same_again_asks_nobody_and_something_else_is_refused(
    compared: Path, models: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a model was asked again")

    monkeypatch.setattr(contest.subprocess, "run", refuse)
    before = json.loads((compared / "comparison.json").read_text(encoding="utf-8"))
    (compared / "report.html").unlink()
    words = ["compare", *map(str, models), "--limit", "24", "--output", str(compared), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == {**before, "machine": before["machine"]}
    assert (compared / "report.html").is_file()
    with pytest.raises(UsageError, match="holds a comparison with other limit, questions; add --overwrite"):
        main(["compare", *map(str, models), "--limit", "23", "--output", str(compared)])
    with pytest.raises(UsageError, match="other models"):
        main(["compare", str(models[0]), "--limit", "24", "--output", str(compared)])


def change(name: str, text: str) -> Callable[[Path, Path], None]:
    def spoil(model: Path, output: Path) -> None:
        (model / name).write_text((model / name).read_text(encoding="utf-8") + text, encoding="utf-8")

    return spoil


def swap_answers(_: Path, output: Path) -> None:
    (file,) = output.glob("systems/small-*/predictions.jsonl")
    first, second, *rest = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join([second, first, *rest]), encoding="utf-8")


def spoil_metrics(_: Path, output: Path) -> None:
    (file,) = output.glob("systems/small-*/metrics.json")
    file.write_text("[]", encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change("generation_config.json", " "), "a comparison with other models"),
        (change("config.json", " "), "a comparison with other models"),
        (change("tokenizer.json", " "), "a comparison with other models"),
        (change("recipe.yaml", " "), "a comparison with other models"),
        (swap_answers, "answers? other questions|is not to the questions"),
        (spoil_metrics, r"metrics\.json is damaged"),
    ],
)
def test_nothing_stale_or_changed_is_believed(
    compared: Path, models: list[Path], tmp_path: Path, spoil: Callable[[Path, Path], None], message: str
) -> None:
    output = Path(shutil.copytree(compared, tmp_path / "out"))
    own = [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in models]
    spoil(own[0], output)
    with pytest.raises(UsageError, match=message):
        main(["compare", *map(str, own), "--limit", "24", "--output", str(output)])


@pytest.mark.parametrize("content", ['{"mine": 1}', "{", '{"asked": 5}', "[]", "[" * 100_000])
def test_what_is_no_comparison_is_never_replaced(models: list[Path], tmp_path: Path, content: str) -> None:
    (tmp_path / "comparison.json").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"comparison\.json is no comparison"):
        main(["compare", str(models[0]), "--limit", "2", "--output", str(tmp_path), "--overwrite"])
    assert (tmp_path / "comparison.json").read_text(encoding="utf-8") == content


def test_what_somebody_put_into_a_comparison_is_never_removed(
    compared: Path, models: list[Path], tmp_path: Path
) -> None:
    output = Path(shutil.copytree(compared, tmp_path / "out"))
    (output / "figures/photo.jpg").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"photo\.jpg is none of a comparison's files"):
        main(["compare", str(models[0]), "--limit", "2", "--output", str(output), "--overwrite"])
    assert (output / "figures/photo.jpg").is_file()


def test_a_folder_of_something_else_is_left_alone(models: list[Path], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(UsageError, match=r"other files \(mine\.txt\)"):
        main(["compare", str(models[0]), "--output", str(tmp_path), "--overwrite"])
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "keep"


def test_what_cannot_be_compared(models: list[Path], tmp_path: Path) -> None:
    output = ["--output", str(tmp_path / "out")]
    with pytest.raises(UsageError, match="nowhere"):
        main(["compare", str(models[0]), str(tmp_path / "nowhere"), *output])
    unfinished = Path(shutil.copytree(models[0], tmp_path / "unfinished"))
    (unfinished / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"no trained model.*--losses"):
        main(["compare", str(models[0]), str(unfinished), *output])
    classifier = Path(shutil.copytree(models[0], tmp_path / "classifier"))
    config = json.loads((classifier / "config.json").read_text(encoding="utf-8"))
    config["architectures"] = ["WenzhenForSequenceClassification"]
    (classifier / "config.json").write_text(json.dumps(config), encoding="utf-8")
    # What it is counts more than what its recipe names.
    load_recipe(str(classifier / "recipe.yaml"), ["data.dataset=nowhere"]).save(classifier)
    with pytest.raises(UsageError, match="classifier holds a classifier of departments, which writes no answers"):
        main(["compare", str(classifier), str(models[0]), *output])
    with pytest.raises(UsageError, match="--limit must be at least 1, got 0"):
        main(["compare", str(models[0]), "--limit", "0", *output])
    with pytest.raises(UsageError, match="no question is of the department 牙科"):
        main(["compare", str(models[0]), "--department", "牙科", *output])
    assert not (tmp_path / "out").exists()


def test_every_model_answers_in_every_way() -> None:
    models = {"a": Path("x/a"), "b": Path("b")}
    assert contenders_of(models, []) == [Contender("a", Path("x/a"), None), Contender("b", Path("b"), None)]
    ways = contenders_of(models, ["greedy", "beam", "greedy"])
    assert [(way.name, way.decoding) for way in ways] == [
        ("a · greedy", "greedy"),
        ("a · beam", "beam"),
        ("b · greedy", "greedy"),
        ("b · beam", "beam"),
    ]
    assert len({way.place(Path("out")) for way in ways}) == 4
    same = contenders_of({"random": Path("random"), "random (model)": Path("random (model)")}, [])
    assert [one.name for one in same] == ["random (model)", "random (model) (model)"]


def test_a_model_that_stops_on_the_way_is_told_and_gone_on_with(
    models: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first process is killed: what it leaves is taken up by the next."""
    run = contest.subprocess.run
    statuses = iter((-9, None))

    def run_or_die(command: list[str], **how: object) -> object:
        status = next(statuses)
        return run(command, **how) if status is None else subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(contest.subprocess, "run", run_or_die)
    words = ["compare", str(models[0]), "--limit", "2", "--output", str(tmp_path / "out")]
    with pytest.raises(RunError, match="small ended with status -9; the same command goes on"):
        main(words)
    assert json.loads((tmp_path / "out/comparison.json").read_text(encoding="utf-8")).keys() == {"asked"}
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {tmp_path / 'out/report.html'}"
