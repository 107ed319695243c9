"""Answers as they grow: the pieces are the answer, whatever the tokenizer and the engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import GenerationConfig

from small_models import PAIRS, save_model_folder, small_model, small_tokenizer
from wenzhen.answering.decoding import DECODINGS, Decoding
from wenzhen.answering.engines import Engine, load_engine
from wenzhen.answering.engines.base import Generated
from wenzhen.answering.export import export_model
from wenzhen.tokenization import KINDS

WILD = Decoding(do_sample=True, temperature=3.0)


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained models of every kind of tokenizer: they write characters by halves, and bytes that are none."""
    folder = tmp_path_factory.mktemp(request.param)
    tokenizer = small_tokenizer(request.param)
    save_model_folder(small_model(tokenizer), tokenizer, folder / "pytorch", max_new_tokens=40)
    export_model(folder / "pytorch", folder / "ctranslate2", "float32")
    return folder


@pytest.mark.parametrize("name", ["pytorch", "ctranslate2"])
def test_pieces_are_the_answer(folder: Path, name: str) -> None:
    engine = load_engine(folder / name)
    for number, question in enumerate(list(PAIRS)[:2]):
        for decoding in (DECODINGS["greedy"], WILD):
            engine.seed(number)
            pieces = list(engine.stream(question, decoding))
            engine.seed(number)
            (expected,) = dict(engine.generate([question], decoding)).values()
            assert "".join(pieces) == expected.text
            assert all(pieces)


@pytest.mark.parametrize("name", ["pytorch", "ctranslate2"])
def test_kinds_agree_across_engines(folder: Path, name: str) -> None:
    answers = [dict(load_engine(folder / engine).generate(list(PAIRS))) for engine in ("pytorch", "ctranslate2")]
    assert answers[0] == answers[1]


class Scripted(Engine):
    """An engine that writes given tokens."""

    def __init__(self, kind: str, tokens: list[int]) -> None:
        self.tokenizer = small_tokenizer(kind)
        self.script = tokens
        self.byte_tokens = {index for token, index in self.tokenizer.get_vocab().items() if token.startswith("<0x")}
        self.closed_after: int | None = None

    def generation_config(self, decoding):
        return GenerationConfig()

    def write_tokens(self, question, config) -> Iterator[int]:
        written = 0
        try:
            for token in self.script:
                written += 1
                yield token
        finally:
            self.closed_after = written

    def load(self, folder): ...
    def write(self, questions, config, batch_size): ...
    def log_probabilities(self, inputs, labels, batch_size): ...
    def seed(self, value): ...


@pytest.mark.parametrize("kind", KINDS)
def test_a_character_comes_whole(kind: str) -> None:
    """However many tokens it takes; and no piece waits for what comes after it."""
    text = "睡前喝水，疼a😀龘 \n。" if kind in ("bpe", "unigram") else "睡前喝水，\N{IDEOGRAPHIC FULL STOP}疼"
    tokenizer = small_tokenizer(kind)
    tokens = tokenizer(text)["input_ids"]
    engine = Scripted(kind, tokens)
    pieces = list(engine.stream("？"))
    assert "".join(pieces) == tokenizer.decode(tokens, skip_special_tokens=True)
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(pieces)
    if kind in ("character", "wordpiece"):
        # The end token is no piece.
        assert len(pieces) == len(tokens) - 1


@pytest.mark.parametrize("data", ["中国".encode()[:-1], b"\xe4\xb8\xadA", b"\xff\xfe", "中".encode() + b"\xe5"])
def test_bytes_that_are_no_character_come_as_in_the_whole_answer(data: bytes) -> None:
    tokenizer = small_tokenizer("unigram")
    single = tokenizer.convert_tokens_to_ids([f"<0x{byte:02X}>" for byte in data])
    tokens = [*single, *tokenizer("药")["input_ids"][:-1], *single]
    pieces = list(Scripted("unigram", tokens).stream("？"))
    assert "".join(pieces) == tokenizer.decode(tokens, skip_special_tokens=True)


def test_leaving_early_stops_the_writing() -> None:
    engine = Scripted("character", small_tokenizer()("睡前不看手机，按时上床。")["input_ids"])
    stream = engine.stream("？")
    assert [next(stream), next(stream)] == ["睡", "前"]
    stream.close()
    assert engine.closed_after == 2


def test_exported_model_writes_no_further_than_it_is_read(folder: Path) -> None:
    engine = load_engine(folder / "ctranslate2")
    stream = engine.stream("疼", DECODINGS["greedy"])
    first = next(stream)
    stream.close()
    assert engine.translator.num_active_batches == 0
    assert first + "".join(list(engine.stream("疼", DECODINGS["greedy"]))[1:]) == one(engine, "疼").text


def one(engine: Engine, question: str) -> Generated:
    return dict(engine.generate([question]))[0]
