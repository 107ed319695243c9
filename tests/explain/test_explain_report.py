"""`wenzhen explain`: the folder, the page and what is refused."""

import json
import re
import shutil
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from wenzhen.answering.engines import Generated
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.cli import main
from wenzhen.errors import run
from wenzhen.explain import drawing, page, saturation
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig

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
    for size in summary["saturation"]["told_head_dims"]:
        assert page.number(summary["saturation"]["largest_probability"]["dot"][str(size)]) in text
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
    assert "the encoder's is shown" in text
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
        (["TOKENIZER"], "holds a tokenizer and no model, which is enough for masks alone: wenzhen explain masks"),
        (["masks", "TOKENIZER", "--question", "痛" * 150], "the question has 150 tokens; a figure"),
    ],
)
def test_wrong_requests_get_one_clear_line(
    arguments: list[str],
    message: str,
    tokenizer_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [str(tokenizer_folder) if argument == "TOKENIZER" else argument for argument in arguments]
    assert run(main, ["explain", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", ["unfinished", "question"])
def test_what_is_wrong_is_said_before_anything_takes_its_time(
    fault: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(saturation, "measure_saturation", lambda config: pytest.fail("computed before it was checked"))
    model, arguments = model_folder, ["--question", "痛" * 150]
    if fault == "unfinished":
        model, arguments = tmp_path / "model", []
        model.mkdir()
        shutil.copy(model_folder / "config.json", model)
    assert run(main, ["explain", "all", str(model), *arguments, "--output", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_damaged_default_model_is_left_out(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(drawing, "RESOLUTION", 30)
    monkeypatch.setattr(saturation, "MODEL_SCALES", (1.0, 16.0))
    measure = saturation.measure_saturation
    tiny = WenzhenConfig(vocab_size=50, d_model=16, attention_heads=1, d_ff=16, encoder_layers=1, decoder_layers=1)
    monkeypatch.setattr(saturation, "measure_saturation", lambda config: measure(config or tiny))
    shutil.copytree(model_folder, "outputs/quickstart")
    Path("outputs/quickstart/model.safetensors").write_bytes(b"damaged")
    assert run(main, ["explain", "--json"]) == 0
    printed = capsys.readouterr()
    assert {"page", "saturation", "positions"} == json.loads(printed.out).keys()
    assert printed.err.startswith("no masks and no attention: ")
    assert run(main, ["explain", "masks"]) == 2


def test_a_question_alone_gets_the_models_own_answer(
    model_folder: Path, tokenizer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "RESOLUTION", 30)
    monkeypatch.setattr(PyTorchEngine, "generate", lambda engine, questions: iter([(0, Generated("好", True))]))
    question = ["--question", "头痛怎么办？"]
    assert run(main, ["explain", "masks", str(model_folder), *question, "--output", str(tmp_path / "m")]) == 0
    answers = json.loads((tmp_path / "m/masks.json").read_text(encoding="utf-8"))["answers"]
    assert answers[0][:4] == ["<s>", "好", "</s>", "<pad>"]
    told = json.loads((tmp_path / "m/explain.json").read_text(encoding="utf-8"))["masks"]
    assert (told["untrained"], told["generated"], told["unrelated"]) == (False, True, False)
    # A tokenizer writes nothing: the page says that the answer is an example, and that no trained model is at work.
    assert run(main, ["explain", "masks", str(tokenizer_folder), *question, "--output", str(tmp_path / "t")]) == 0
    text = (tmp_path / "t/index.html").read_text(encoding="utf-8")
    assert "is an example" in text
    assert "untrained model" in text


def saturation_page(folder: Path, passed: float, starved: float, layers: int = 6, score: str = "scaled_dot") -> str:
    """Return the page about a shape of which the division has changed nothing but these two numbers."""
    for name in FIGURES["saturation"]:
        (folder / f"{name}.svg").write_text('<svg width="72pt" height="72pt"/>')
    sizes = {"16": 0.1, "64": 0.2, "256": 0.3}
    numbers = {"scaled_dot": 0.03, "dot": 0.03, "end": 1e-6}
    summary = {
        "model": "m",
        "largest_probability": {"scaled_dot": sizes, "dot": sizes},
        "jacobian_norm": {"scaled_dot": sizes, "dot": sizes},
        "told_head_dims": [64, 256],
        "encoder_layers": layers,
        "decoder_layers": layers,
        "d_model": 512,
        "attention_heads": 8,
        "head_dim": 64,
        "model_score": score,
        "largest_scale": 64.0,
        "first_encoder_layer": {
            "largest_probability": numbers,
            "passed": {**numbers, "dot": passed},
            "starved": {"scaled_dot": 0.0, "dot": starved, "end": 0.7},
            "query_gradient": {"scaled_dot": 0.1, "dot": 1.0, "end": 1e6},
        },
    }
    page.write_page(folder / "index.html", {"saturation": summary}, {"saturation": FIGURES["saturation"]})
    return " ".join((folder / "index.html").read_text(encoding="utf-8").split())


def test_the_conclusion_follows_from_the_numbers(tmp_path: Path) -> None:
    kept, little = "reaches every query evenly", "the division matters little"
    for passed, starved in ((0.01, 0.0), (0.03, 0.5)):
        text = saturation_page(tmp_path, passed, starved)
        assert kept in text
        assert little not in text
    text = saturation_page(tmp_path, 0.036, 0.02)
    assert kept not in text
    assert little in text


def test_one_layer_has_none_below(tmp_path: Path) -> None:
    claim = "multiplies it once more"
    assert claim in saturation_page(tmp_path, 0.01, 0.5)
    assert claim not in saturation_page(tmp_path, 0.01, 0.5, layers=1)


def test_the_models_own_score_is_told(tmp_path: Path) -> None:
    assert "own attention score is additive" in saturation_page(tmp_path, 0.01, 0.5, score="additive")
    assert "own attention score" not in saturation_page(tmp_path, 0.01, 0.5)


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


def test_counts_have_their_plural() -> None:
    assert [page.plural(count, "layer") for count in (1, 2)] == ["1 layer", "2 layers"]


def test_lines_of_chinese_are_joined() -> None:
    assert page.join_lines("咳嗽\n头痛，\n12 天\nsoftmax\n的") == "咳嗽头痛，12 天\nsoftmax\n的"
