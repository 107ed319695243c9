"""Questions in, answers out: the engine's batches and streams, and what the answerer refuses."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from wenzhen.answering.answerer import NOTICE, Answerer
from wenzhen.answering.decoding import DECODINGS, Decoding, decoding_named
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.errors import UsageError

QUESTIONS = ["高血压平时要注意什么？", "孩子3岁，这几天被诊断为手足口病。什么情况下要去医院？", "痔疮有什么症状？"]


@pytest.fixture(scope="module")
def answerer(model_folder: Path) -> Answerer:
    return Answerer(model_folder)


def test_batch_answers_are_those_of_each_question_alone(answerer: Answerer) -> None:
    together = dict(answerer.answer_all(QUESTIONS))
    assert [together[index] for index in range(3)] == [answerer.answer(question) for question in QUESTIONS]
    assert all(answer.notice == NOTICE for answer in together.values())


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_stream_ends_in_the_answer(answerer: Answerer, name: str) -> None:
    decoding = DECODINGS[name]
    parts = list(answerer.stream(QUESTIONS[0], decoding))
    assert parts[-1] == answerer.answer(QUESTIONS[0], decoding).text
    assert all(later.startswith(earlier) for earlier, later in pairwise(parts))
    assert len(parts) > 5 if name == "greedy" else len(parts) == 1


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
