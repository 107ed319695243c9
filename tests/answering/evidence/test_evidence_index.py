"""An index by its command: what it finds, where it may go, and what is said of a damaged one."""

import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from small_models import PAIRS, POSITIONS, change_json
from wenzhen.answering.answer import NOT_COVERED
from wenzhen.answering.answerer import Answerer
from wenzhen.answering.engines import load_engine
from wenzhen.answering.evidence import EvidenceIndex
from wenzhen.answering.evidence.building import build_index
from wenzhen.cli import main
from wenzhen.corpus.loading import load_split
from wenzhen.corpus.schema import features
from wenzhen.errors import UsageError, run

CALIBRATED = ("least_similarity", "least_probability", "calibration")
UNCOVERED = Path(__file__).with_name("uncovered.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def index(built: tuple[Path, dict[str, Any]]) -> EvidenceIndex:
    return EvidenceIndex(built[0] / "evidence")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_evidence_is_the_training_record(index: EvidenceIndex, dataset: Path) -> None:
    rows = load_split(dataset, "train")
    assert len(index) == len(rows)
    names = rows.features["department"].names
    for row in rows.select([0, len(rows) - 1]):
        (evidence,) = index.search(row["question"], 1)
        assert (evidence.id, evidence.question, evidence.answer) == (row["id"], row["question"], row["answer"])
        assert evidence.department == names[row["department"]]
        assert evidence.similarity == 1.0


def test_thresholds_are_quantiles_of_the_validation_questions(
    built: tuple[Path, dict[str, Any]], index: EvidenceIndex, dataset: Path
) -> None:
    folder, meta = built
    questions = list(load_split(dataset, "validation")["question"])
    nearest = [index.search(question, 1)[0].similarity for question in questions]
    assert index.least_similarity == pytest.approx(np.quantile(nearest, 0.02), abs=1e-12)
    engine = load_engine(folder)
    answers = [answer.text for _, answer in sorted(engine.generate(questions), key=lambda item: item[0])]
    inputs, labels = (ids.to_pylist() for ids in engine.encoder.pairs(questions, answers, POSITIONS, POSITIONS))
    probable = [np.exp(row.mean()) for row in engine.log_probabilities(inputs, labels, batch_size=1)]
    assert index.least_probability == pytest.approx(np.quantile(probable, 0.02), rel=1e-5)
    asked = [index.search(question, 1)[0].similarity for question in load_split(dataset, "test")["question"]]
    assert meta["calibration"]["test_share_uncovered"] == np.mean(np.array(asked) < index.least_similarity)


def test_questions_that_no_consultation_covers_are_recognised(index: EvidenceIndex) -> None:
    assert len(UNCOVERED) >= 60
    nearest = [found[0].similarity if (found := index.search(text, 1)) else 0.0 for text in UNCOVERED]
    assert np.mean(np.array(nearest) < index.least_similarity) == 1.0


def test_many_threads_find_what_one_finds(index: EvidenceIndex, dataset: Path) -> None:
    questions = list(load_split(dataset, "test")["question"])
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(index.search, questions)) == [index.search(question) for question in questions]


def test_answerer_shows_evidence_and_writes_nothing_without(indexed: Path, dataset: Path) -> None:
    answerer = Answerer(indexed)
    question = str(load_split(dataset, "train")["question"][0])[:40]
    answer = answerer.answer(question)
    assert answer.evidence == tuple(EvidenceIndex(indexed / "evidence").search(question))
    assert answer.confidence is not None
    assert answer.confidence.similarity == answer.evidence[0].similarity
    refused = answerer.answer("今天大盘会涨吗？")
    assert (refused.text, refused.caveat) == ("", NOT_COVERED)


def test_index_by_its_command(unindexed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = shutil.copytree(unindexed, tmp_path / "model")
    before = contents(model)
    assert run(main, ["index", str(model), "--json"]) == 0
    meta = json.loads(capsys.readouterr().out)
    assert {name: content for name, content in contents(model).items() if not name.startswith("evidence")} == before
    assert meta.pop("index") == str(model / "evidence")
    assert json.loads((model / "evidence/meta.json").read_text(encoding="utf-8")) == meta
    # Nothing says where it was made.
    assert not any(str(tmp_path.parent).encode() in content for content in contents(model / "evidence").values())
    assert run(main, ["index", str(model)]) == 2
    assert "already holds a result; add --overwrite" in capsys.readouterr().err
    assert run(main, ["index", str(model), "--overwrite"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["consultations", f"{meta['consultations']:,}", "of", "dataset"]
    assert f"below {meta['least_similarity']:.3f}: not covered" in lines[1]
    assert lines[-1].startswith(f"index: {model / 'evidence'}  (")


def test_index_that_fails_leaves_the_earlier_one(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(indexed)

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("full")

    monkeypatch.setattr("wenzhen.answering.evidence.building.calibrate", fail)
    with pytest.raises(MemoryError):
        build_index(indexed, overwrite=True)
    assert contents(indexed) == before


def files_of(folder: Path) -> dict[str, str]:
    return json.loads((folder / "meta.json").read_text(encoding="utf-8"))["files"]


def spoil(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: (folder / "meta.json").unlink(), "No such file"),
        (lambda folder: (folder / "meta.json").write_text("{"), "Expecting"),
        (lambda folder: (folder / "meta.json").write_text("[]"), ""),
        (lambda folder: (folder / "meta.json").write_text('{"version": 0}'), "it is of version 0, not 1"),
        (lambda folder: change_json(folder / "meta.json", least_similarity=3), "must be from 0 to 1, got 3"),
        (lambda folder: change_json(folder / "meta.json", least_similarity=math.nan), "must be from 0 to 1, got nan"),
        (lambda folder: change_json(folder / "meta.json", least_similarity="0.5"), "must be from 0 to 1, got '0.5'"),
        (lambda folder: change_json(folder / "meta.json", least_similarity=None), "must be from 0 to 1, got None"),
        (lambda folder: change_json(folder / "meta.json", least_probability=-1), "least_probability must be from 0"),
        (lambda folder: change_json(folder / "meta.json", least_probability=True), "least_probability must be from 0"),
        (lambda folder: change_json(folder / "meta.json", words_per_question=0), "must be a number above 0, got 0"),
        (lambda folder: change_json(folder / "meta.json", words_per_question=math.inf), "above 0, got inf"),
        (lambda folder: change_json(folder / "meta.json", files={}), "consultations.arrow is none of its files"),
        (lambda folder: change_json(folder / "meta.json", files=["meta.json"]), ""),
        (
            lambda folder: change_json(folder / "meta.json", files={"../config.json": "0", **files_of(folder)}),
            "there is no ../config.json",
        ),
        (lambda folder: (folder / "notes.txt").touch(), "notes.txt is none of its files"),
        (lambda folder: (folder / "consultations.arrow").unlink(), "there is no consultations.arrow"),
        (lambda folder: (folder / "consultations.arrow").write_bytes(b""), "consultations.arrow has changed"),
        (lambda folder: spoil(folder / "consultations.arrow"), "consultations.arrow has changed"),
        (lambda folder: spoil(folder / "postings/indices.csc.index.npy"), "indices.csc.index.npy has changed"),
        (lambda folder: shutil.rmtree(folder / "postings"), "there is no postings/data.csc.index.npy"),
    ],
)
def test_damaged_index_is_named_with_what_to_do(indexed: Path, damage: Any, reason: str) -> None:
    damage(indexed / "evidence")
    with pytest.raises(UsageError) as error:
        EvidenceIndex(indexed / "evidence")
    message = str(error.value)
    assert message.startswith(f"the index in {indexed / 'evidence'} cannot be used: ")
    assert reason in message
    assert f"wenzhen index {indexed} --overwrite" in message
    assert "\n" not in message


@pytest.mark.parametrize("lost", [["meta.json"], ["meta.json", "consultations.arrow"]])
def test_index_that_lost_files_is_replaced(indexed: Path, lost: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(indexed)
    for name in lost:
        (indexed / "evidence" / name).unlink()
    with pytest.raises(UsageError, match="already holds a result; add --overwrite"):
        build_index(indexed)
    # What the model says is measured above.
    measured = {name: json.loads(before["evidence/meta.json"])[name] for name in CALIBRATED}
    monkeypatch.setattr("wenzhen.answering.evidence.building.calibrate", lambda *_, **__: measured)
    build_index(indexed, overwrite=True)
    assert contents(indexed) == before
    (indexed / "evidence/meta.json").unlink()
    (indexed / "evidence/thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"holds other files \(thesis\.txt\)"):
        build_index(indexed, overwrite=True)


def test_missing_dataset_is_named_with_what_to_do(unindexed: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no dataset folder .*nowhere.*--dataset"):
        build_index(unindexed, tmp_path / "nowhere")
    assert not (unindexed / "evidence").exists()


def small_dataset(folder: Path) -> Path:
    """A dataset whose consultations have the same answers again and again."""
    question, other = list(PAIRS)[:2]
    water = "多喝水。"
    texts = [(question, water), (f"{question}急", water), (other, "早睡。"), (f"{question}？谢谢", "量体温。")]
    rows = [
        {"id": f"{n:016x}", "department": 1, "sub_department": "", "title": f"标题{n}", "too_long": False}
        | {"question": asked, "answer": answer}
        for n, (asked, answer) in enumerate(texts)
    ]
    split = Dataset.from_list(rows, features=features())
    DatasetDict(train=split, validation=split, test=split).save_to_disk(str(folder))
    return folder


def test_same_answer_is_shown_once_and_titles_as_the_recipe_has_them(unindexed: Path, tmp_path: Path) -> None:
    model = shutil.copytree(unindexed, tmp_path / "model")
    recipe = (model / "recipe.yaml").read_text(encoding="utf-8")
    (model / "recipe.yaml").write_text(recipe.replace("with_title: false", "with_title: true"), encoding="utf-8")
    meta = build_index(model, small_dataset(tmp_path / "small"))
    question = next(iter(PAIRS))
    found = EvidenceIndex(model / "evidence").search(f"标题0\n{question}", 3)
    assert [evidence.answer for evidence in found[:2]] == ["多喝水。", "量体温。"]
    assert found[0].question == f"标题0\n{question}"
    assert len({evidence.answer for evidence in found}) == len(found)
    assert meta["dataset"]["with_title"]
    assert meta["consultations"] == 4
