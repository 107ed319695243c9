"""Questions in, answers out: the engine's batches and streams, and what the answerer refuses."""

import json
import math
import shutil
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from wenzhen.answering.answer import FIXED_NOTICE, NOT_COVERED, NOTICE, UNCHECKED, UNSURE, Answer, Confidence
from wenzhen.answering.answerer import Answerer
from wenzhen.answering.decoding import DECODINGS, Decoding, decoding_named
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.answering.evidence import Evidence
from wenzhen.answering.safety import SafetyNotice, SafetyRules
from wenzhen.answering.safety.loading import RULES_FILE
from wenzhen.answering.safety.rules import CheckedAnswer
from wenzhen.errors import UsageError
from wenzhen.models.digest import model_digest

QUESTIONS = ["高血压平时要注意什么？", "孩子3岁，这几天被诊断为手足口病。什么情况下要去医院？", "痔疮有什么症状？"]


@pytest.fixture(scope="module")
def answerer(model_folder: Path) -> Answerer:
    return Answerer(model_folder)


def timeless(answer: Answer) -> dict[str, object]:
    """Return an answer without its time, its probability apart, which batches round differently."""
    row = asdict(answer) | {"seconds": 0}
    if row["confidence"]:
        row["confidence"]["probability"] = pytest.approx(row["confidence"]["probability"], rel=1e-4)
    return row


def test_batch_answers_are_those_of_each_question_alone(answerer: Answerer) -> None:
    together = dict(answerer.answer_all(QUESTIONS))
    for index, question in enumerate(QUESTIONS):
        assert asdict(together[index]) | {"seconds": 0} == timeless(answerer.answer(question))
    assert all(answer.notice == NOTICE for answer in together.values())


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_stream_grows_into_the_answer(answerer: Answerer, name: str) -> None:
    decoding = DECODINGS[name]
    parts = list(answerer.stream(QUESTIONS[0], decoding))
    assert parts[0].text == ""
    assert asdict(parts[-1]) | {"seconds": 0} == timeless(answerer.answer(QUESTIONS[0], decoding))
    assert all(later.text.startswith(earlier.text) for earlier, later in pairwise(parts))
    assert all(earlier.seconds <= later.seconds for earlier, later in pairwise(parts))
    assert all(part.confidence is None for part in parts[:-1])
    assert len(parts) > 5 if name == "greedy" else len(parts) <= 4


def test_an_answer_says_what_wrote_it_and_how(answerer: Answerer, model_folder: Path) -> None:
    answer = answerer.answer(QUESTIONS[0], DECODINGS["beam"])
    assert (answer.engine, answer.decoding, answer.model) == ("PyTorch", "4 beams, α 0.75", model_folder.name)
    assert answer.revision == model_digest(model_folder)[:12]
    assert (answer.safety, answer.department, answer.evidence, answer.caveat) == (None, None, (), UNCHECKED)


def test_probability_is_the_geometric_mean_over_the_tokens(answerer: Answerer) -> None:
    engine = answerer.engine
    answer = answerer.answer(QUESTIONS[0], DECODINGS["greedy"])
    ids = engine.encode([QUESTIONS[0]])
    with torch.inference_mode():
        labels = engine.tokenizer(text_target=answer.text, return_tensors="pt")["input_ids"][
            :, : engine.default_generation_config.max_new_tokens
        ]
        logits = engine.model(**ids, labels=labels).logits
        loss = torch.nn.functional.cross_entropy(logits[0], labels[0])
    assert answer.confidence.similarity is None
    assert answer.confidence.probability == pytest.approx(math.exp(-loss), rel=1e-4)


class Rules(SafetyRules):
    """Rules that take one question and let no digit pass."""

    def check_question(self, question: str) -> SafetyNotice | None:
        if "胸痛" not in question:
            return None
        return SafetyNotice("test", "heart", "胸痛", "请立即拨打120。", "Call 120.", ("胸痛",), "0")


class Lenient(SafetyRules):
    """Rules that let everything pass."""

    def check_answer(self, text: str) -> CheckedAnswer:
        return CheckedAnswer(text, ())


class Index:
    """An index in which every question is as near as it is told."""

    least_similarity = 0.5
    least_probability = None

    def __init__(self, similarity: float) -> None:
        self.found = [Evidence("1", "内科", "血压高怎么办？", "少吃盐。", similarity)]

    def search(self, question: str, count: int) -> list[Evidence]:
        return self.found[:count]


@pytest.fixture
def silent(answerer: Answerer, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Answerer:
    """Return an answerer with rules and an index, whose engine must not write."""
    alert = Answerer(model_folder)
    alert.rules = Rules()
    for method in ("generate", "stream"):
        monkeypatch.setattr(alert.engine, method, lambda *_: pytest.fail("something was generated"))
    return alert


def test_an_emergency_is_answered_before_anything_is_generated(silent: Answerer) -> None:
    silent.evidence = Index(0.9)
    (streamed,) = silent.stream("我胸痛")
    for answer in (streamed, dict(silent.answer_all(["我胸痛"]))[0]):
        assert (answer.text, answer.safety.advice) == ("", "请立即拨打120。")
        assert (answer.evidence, answer.confidence, answer.department) == ((), None, None)
        assert answer.notice == FIXED_NOTICE


def test_a_folder_brings_its_own_safety_rules(model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    rules = RULES_FILE.read_text(encoding="utf-8").replace("\nversion: ", "\nversion: own-")
    (tmp_path / "model" / "safety.yaml").write_text(rules, encoding="utf-8")
    assert Answerer(tmp_path / "model").answer("我胸痛，喘不上气").safety.version.startswith("own-")
    (tmp_path / "model" / "safety.yaml").write_text("version: 1", encoding="utf-8")
    with pytest.raises(UsageError, match=r"safety\.yaml"):
        Answerer(tmp_path / "model")


def test_what_the_corpus_does_not_cover_gets_the_honest_sentence(silent: Answerer) -> None:
    silent.evidence = Index(0.4)
    (streamed,) = silent.stream("股票会涨吗？")
    for answer in (streamed, dict(silent.answer_all(["股票会涨吗？"]))[0]):
        assert (answer.text, answer.caveat) == ("", NOT_COVERED)
        assert answer.confidence == Confidence(0.4, None)
        assert answer.notice == FIXED_NOTICE


def test_consultations_beside_an_answer_tell_no_doses_and_steer_no_terminal(
    answerer: Answerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, text = (
        "宝宝发烧，给他吃了布洛芬5ml，可以吗？\x1b[2J",
        "口服阿莫西林0.5g，多喝水。\n\x1b]0;x\x07\u202e体温38.5度再来。",
    )
    index = Index(0.9)
    index.found = [Evidence("1", "内\x1b科", question, text, 0.9)]
    monkeypatch.setattr(answerer, "evidence", index)
    shown = (
        Evidence(
            "1",
            "内科",
            "宝宝发烧，给他吃了布洛芬〔剂量须由医生决定〕，可以吗？[2J",
            "口服阿莫西林〔剂量须由医生决定〕，多喝水。\n]0;x体温38.5度再来。",
            0.9,
        ),
    )
    assert answerer.answer(QUESTIONS[0]).evidence == shown
    assert all(part.evidence == shown for part in answerer.stream(QUESTIONS[0]))
    # Other rules find the same consultation.
    monkeypatch.setattr(answerer, "rules", Lenient())
    assert "布洛芬5ml" in answerer.answer(QUESTIONS[0]).evidence[0].question


def test_an_improbable_answer_is_marked(answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answerer, "evidence", index := Index(0.6))
    assert answerer.answer(QUESTIONS[0]).caveat == ""
    index.least_probability = 1.0
    answer = answerer.answer(QUESTIONS[0])
    assert answer.caveat == UNSURE
    assert answer.text
    assert answer.evidence == tuple(index.found)


def test_a_batch_keeps_numbers_whatever_takes_the_questions(answerer: Answerer, model_folder: Path) -> None:
    mixed = Answerer(model_folder)
    mixed.rules = Rules()
    answers = dict(mixed.answer_all([QUESTIONS[0], "我胸痛", QUESTIONS[1]]))
    assert [answers[n].question for n in range(3)] == [QUESTIONS[0], "我胸痛", QUESTIONS[1]]
    assert [bool(answers[n].text) for n in range(3)] == [True, False, True]


def test_leaving_a_stream_early_stops_the_writing(answerer: Answerer) -> None:
    stream = answerer.stream(QUESTIONS[0])
    next(stream)
    stream.close()
    assert answerer.answer(QUESTIONS[0]).text


def test_failure_while_streaming_reaches_the_reader(answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**inputs):
        raise MemoryError("full")

    monkeypatch.setattr(answerer.engine.model, "generate", fail)
    with pytest.raises(MemoryError, match="full"):
        list(answerer.stream(QUESTIONS[0]))


@pytest.mark.parametrize("question", ["", "  \n\t ", "\x00\x07", "\u200b"])
def test_empty_question_is_refused(answerer: Answerer, question: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        answerer.answer(question)


def test_question_length_limit(answerer: Answerer) -> None:
    # The recipe reads 96 tokens, one of which is the end.
    assert answerer.answer("痛" * 95).question == "痛" * 95
    with pytest.raises(UsageError, match="10,000 characters; this model reads at most 95"):
        answerer.answer("痛" * 10_000)


def test_control_characters_are_dropped(answerer: Answerer) -> None:
    assert answerer.normalize(" 头\x00痛\ud800\u202e怎么办？\n") == "头痛怎么办？"


def test_characters_that_the_model_does_not_know_are_named(answerer: Answerer) -> None:
    assert answerer.answer("高血压龘鱻，龘").unknown == "龘鱻"
    assert answerer.answer("高血压").unknown == ""


def test_special_tokens_in_a_question_are_text(answerer: Answerer) -> None:
    ids = answerer.engine.encode(["头痛</s>"])["input_ids"][0].tolist()
    assert ids.count(answerer.engine.tokenizer.eos_token_id) == 1


def test_decoding_names() -> None:
    assert decoding_named(None) is None
    assert decoding_named("beam") == Decoding(num_beams=4, length_penalty=0.75)
    with pytest.raises(UsageError, match="no decoding best; there are: greedy, beam, sampling"):
        decoding_named("best")


def test_no_model_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no model folder"):
        PyTorchEngine(tmp_path / "nothing")
    with pytest.raises(UsageError, match=r"lacks config\.json, generation_config\.json, model\.safetensors, tok"):
        PyTorchEngine(tmp_path)


def test_damaged_weights_are_explained(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(UsageError, match="cannot be loaded"):
        PyTorchEngine(folder)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_damaged_files_are_explained(model_folder: Path, tmp_path: Path, name: str, content: str) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    (tmp_path / "model" / name).write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"cannot be loaded|are not those of|tokens"):
        PyTorchEngine(tmp_path / "model")


@pytest.mark.parametrize(("key", "value"), [("encoder_layers", 3), ("decoder_layers", 1)])
def test_weights_of_another_model_never_answer(model_folder: Path, tmp_path: Path, key: str, value: object) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    config = json.loads((model_folder / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, key: value}), encoding="utf-8")
    with pytest.raises(UsageError, match="are not those of its config"):
        PyTorchEngine(tmp_path / "model")
