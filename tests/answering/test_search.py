"""Greedy, beam and exhaustive search, over probabilities that are known one by one.

Both engines' beam search takes the answer with the highest log P / Lᵅ, L being the number of tokens written: the end
token counts, the start token does not. An answer cut at the length limit has no end token; it competes by the same
rule, with the limit as its L.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from small_models import POSITIONS, save_model_folder, small_model
from wenzhen.answering.decoding import DECODINGS, Decoding
from wenzhen.answering.engines import load_engine
from wenzhen.answering.engines.base import Engine, Generated
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.answering.export import export_model
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.tokenization import train_tokenizer

Answer = tuple[int, ...]
# The probabilities of A, B, C and the end, by what stands before them.
Table = Callable[[Answer], Sequence[float]]
EOS = 3
# Ids of the characters, behind the four special tokens.
A, B, C = 4, 5, 6
SYMBOLS = (A, B, C, EOS)
QUESTION = "ABC"
# The rows that the lecture's two answers need; the steps that it does not name share what is left.
LECTURE = {
    (): (0.5, 0.25, 0.2, 0.05),
    (A,): (0.1, 0.4, 0.3, 0.2),
    (A, B): (0.2, 0.2, 0.4, 0.2),
    (A, B, C): (0.0, 0.2, 0.2, 0.6),
    (A, C): (0.1, 0.6, 0.2, 0.1),
    (A, C, B): (0.1, 0.2, 0.1, 0.6),
}
# The later an answer of A ends, the higher it scores.
LATE = {(A,) * length: (0.6, 0.0, 0.0, 0.4) for length in range(5)} | {(A,) * 5: (0.01, 0.0, 0.0, 0.99)}


class DeafEncoder(nn.Module):
    main_input_name = "input_ids"

    def forward(self, input_ids: torch.Tensor, **_: object) -> BaseModelOutput:
        return BaseModelOutput(input_ids[..., None].float())


class TableModel(PreTrainedModel, GenerationMixin):
    """An encoder-decoder whose next token depends on the prefix alone, by a table."""

    config_class = WenzhenConfig
    main_input_name = "input_ids"
    _supports_sdpa = True

    def __init__(self, config: WenzhenConfig, table: Table) -> None:
        super().__init__(config)
        self.table = table
        self.encoder = DeafEncoder()

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(labels[:, :-1].clamp(min=0), (1, 0), value=self.config.decoder_start_token_id)

    def forward(self, decoder_input_ids: torch.Tensor, **_: object) -> Seq2SeqLMOutput:
        logits = torch.full((*decoder_input_ids.shape, self.config.vocab_size), -math.inf)
        for row, (_, *tokens) in zip(logits, decoder_input_ids.tolist(), strict=True):
            for place in range(len(tokens) + 1):
                row[place, list(SYMBOLS)] = torch.tensor(self.table(tuple(tokens[:place]))).log()
        return Seq2SeqLMOutput(logits=logits)


def random_table(seed: int) -> Table:
    @cache
    def row(prefix: Answer) -> list[float]:
        return np.random.default_rng([seed, *prefix]).dirichlet(np.ones(len(SYMBOLS))).tolist()

    return row


def written_table(rows: dict[Answer, Sequence[float]]) -> Table:
    """Return a table that is even where nothing is written."""
    return lambda prefix: rows.get(prefix, (0.25,) * len(SYMBOLS))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> PyTorchEngine:
    """An engine whose model the tests replace by tables."""
    tokenizer = train_tokenizer([QUESTION])
    tokenizer.model_max_length = POSITIONS
    assert tokenizer.convert_tokens_to_ids([*QUESTION, tokenizer.eos_token]) == list(SYMBOLS)
    folder = tmp_path_factory.mktemp("table") / "model"
    return PyTorchEngine(save_model_folder(small_model(tokenizer), tokenizer, folder, use_cache=False))


@pytest.fixture
def put(engine: PyTorchEngine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PyTorchEngine]:
    """Put a table in the model's place, and a length limit and other settings of its own way to answer."""

    def put(table: Table, limit: int, **settings: object) -> PyTorchEngine:
        default = engine.default_generation_config
        changed = default.from_dict({**default.to_dict(), "max_new_tokens": limit, **settings})
        monkeypatch.setattr(engine, "model", TableModel(engine.model.config, table))
        monkeypatch.setattr(engine, "default_generation_config", changed)
        return engine

    return put


def written(engine: PyTorchEngine, decoding: Decoding) -> tuple[Answer, float]:
    """Return the tokens that the engine writes, and the score that `generate` gives them in its beam search."""
    config = engine.generation_config(decoding)
    (tokens,) = engine.write([QUESTION], config, batch_size=1)
    config.update(return_dict_in_generate=True, output_scores=True)
    output = engine.model.generate(**engine.encode([QUESTION]), generation_config=config)
    assert output.sequences[0, 1:].tolist() == tokens
    return tuple(tokens), output.sequences_scores.item()


def every_answer(symbols: Sequence[int], limit: int) -> list[Answer]:
    """List the answers that end within the limit, and those that are cut there."""
    others = [symbol for symbol in symbols if symbol != EOS]
    ended = [(*rest, EOS) for length in range(limit) for rest in itertools.product(others, repeat=length)]
    return [*ended, *itertools.product(others, repeat=limit)]


def log_probability(table: Table, answer: Answer) -> float:
    steps = (table(answer[:place])[SYMBOLS.index(token)] for place, token in enumerate(answer))
    return sum(math.log(probability) for probability in steps)


def test_greedy_search_misses_the_better_answer_of_the_lecture(put) -> None:
    engine = put(written_table(LECTURE), limit=4)
    assert dict(engine.generate([QUESTION], DECODINGS["greedy"])) == {0: Generated("ABC", ended=True)}
    assert dict(engine.generate([QUESTION], DECODINGS["beam"])) == {0: Generated("ACB", ended=True)}
    probabilities = np.exp(-engine.score([QUESTION] * 2, ["ABC", "ACB"], max_answer_length=4)[:, 0])
    # 0.5 · 0.4 · 0.4 · 0.6 and 0.5 · 0.3 · 0.6 · 0.6.
    np.testing.assert_allclose(probabilities, [0.048, 0.054], rtol=1e-6)


@pytest.mark.parametrize("num_beams", [2, 3, 4, 8, 256])
def test_beams_find_the_better_answer_of_the_lecture(put, num_beams: int) -> None:
    answer, score = written(put(written_table(LECTURE), limit=4), Decoding(num_beams, length_penalty=0.75))
    assert answer == (A, C, B, EOS)
    assert score == pytest.approx(math.log(0.054) / 4**0.75, abs=1e-6)


def test_without_length_in_the_score_the_lecture_table_has_a_shorter_answer(put) -> None:
    """A and the end, 0.5 · 0.2, is more probable than either; the power of the length makes up for the length."""
    answer, score = written(put(written_table(LECTURE), limit=4), Decoding(num_beams=256, length_penalty=0.0))
    assert answer == (A, EOS)
    assert score == pytest.approx(math.log(0.1), abs=1e-6)


@pytest.mark.parametrize("length_penalty", [0.75, 0.0, 1.0])
def test_a_full_beam_is_exhaustive(put, length_penalty: float, limit: int = 4) -> None:
    kinds = set()
    for seed in range(12):
        table = random_table(seed)
        engine = put(table, limit)
        scores = {
            answer: log_probability(table, answer) / len(answer) ** length_penalty
            for answer in every_answer(SYMBOLS, limit)
        }
        best = max(scores, key=lambda answer: scores[answer])
        answer, score = written(engine, Decoding(len(SYMBOLS) ** limit, length_penalty))
        assert answer == best
        assert score == pytest.approx(scores[best], abs=1e-5)
        kinds.add((len(best), best[-1] == EOS))
    assert {(1, True), (2, True), (3, True), (4, True)} <= kinds


@pytest.mark.parametrize(("num_beams", "written_early"), [(2, 2), (2**6, 5)])
def test_early_stopping_misses_the_best_answer_even_with_a_full_beam(put, num_beams: int, written_early: int) -> None:
    """Search then ends when as many answers as beams have, and in transformers a beam that holds nothing may end too:
    half of those here at each step, when A and the end are all there is to choose from."""
    lengths = {}
    for early_stopping in (True, False):
        engine = put(written_table(LATE), 6, early_stopping=early_stopping)
        answer, score = written(engine, Decoding(num_beams, length_penalty=1.0))
        assert answer == (*(A,) * (len(answer) - 1), EOS)
        assert score == pytest.approx(log_probability(written_table(LATE), answer) / len(answer), abs=1e-6)
        lengths[early_stopping] = len(answer)
    assert lengths[True] < lengths[False] == 6


@pytest.fixture(scope="module", params=["PyTorch", "CTranslate2"])
def real_engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Engine]:
    """Two models of six tokens; one likes answers of one or two tokens, the other of two or more."""
    tokenizer = train_tokenizer(["AB"])
    tokenizer.model_max_length = POSITIONS
    engines = []
    for d_model, noise in ((24, 0.1), (8, 0.4)):
        shape = {"d_model": d_model, "attention_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
        model = small_model(tokenizer, noise, tie_word_embeddings=False, **shape)
        folder = save_model_folder(model, tokenizer, tmp_path_factory.mktemp("real") / "model", max_new_tokens=3)
        if request.param == "CTranslate2":
            export_model(folder, folder.with_name("exported"), "float32")
            folder = folder.with_name("exported")
        engines.append(load_engine(folder))
    return engines


@pytest.mark.parametrize("length_penalty", [0.75, 0.0, 1.0])
def test_a_full_beam_of_a_real_model_is_exhaustive(real_engines: list[Engine], length_penalty: float) -> None:
    """By the probabilities that the engine itself gives every answer, special tokens among them."""
    limit, questions = 3, ["A", "AB", "ABBA", "BBBBB", "AAAAAAAA"]
    kinds = set()
    for engine in real_engines:
        tokens = len(engine.tokenizer)
        answers = every_answer(range(tokens), limit)
        lengths = np.array([len(answer) for answer in answers])
        config = engine.generation_config(Decoding(tokens**limit, length_penalty))
        for ids, found in zip(
            engine.encoder(questions).to_pylist(), engine.write(questions, config, batch_size=5), strict=True
        ):
            rows = engine.log_probabilities([ids] * len(answers), [list(answer) for answer in answers], batch_size=64)
            scores = np.array([row.sum() for row in rows]) / lengths**length_penalty
            best = answers[int(scores.argmax())]
            assert tuple(found) == best
            kinds.add((len(best), best[-1] == EOS))
    assert {(1, True), (2, True), (3, False)} <= kinds
