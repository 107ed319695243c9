"""An exported model beside the one in PyTorch: the same searches, the same law of sampling, and clear refusals."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GenerationConfig
from transformers.generation import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from small_models import PAIRS, POSITIONS, change_json, save_model_folder, small_model, small_tokenizer
from wenzhen.answering.decoding import DECODINGS, Decoding
from wenzhen.answering.engines import load_engine
from wenzhen.answering.engines.ctranslate2 import DEFAULTS, CTranslate2Engine
from wenzhen.answering.engines.pytorch import PyTorchEngine
from wenzhen.answering.export import export_model
from wenzhen.errors import UsageError
from wenzhen.tokenization import train_tokenizer

# Half of them are none that it was trained on.
QUESTIONS = [*PAIRS, "感冒了睡不着", "孩子血压有点高，怎么办？", "膝盖肿了三天。", "疼", "要吃药吗？要看医生吗？"]
SEARCHES = {
    "greedy": {},
    "one token": {"max_new_tokens": 1},
    "cut": {"max_new_tokens": 7},
    "least length": {"min_new_tokens": 40},
    "repetition penalty": {"repetition_penalty": 1.5},
    "no bigram twice": {"no_repeat_ngram_size": 2},
    "no token twice": {"no_repeat_ngram_size": 1},
    **{
        f"beams, length penalty {penalty}": {"num_beams": 4, "length_penalty": penalty, "early_stopping": True}
        for penalty in (-1.0, 0.0, 0.75, 2.0)
    },
    "cut beams": {"num_beams": 3, "max_new_tokens": 7},
    "more beams than tokens": {"num_beams": 200, "max_new_tokens": 2},
}


def set_generation(engine: PyTorchEngine | CTranslate2Engine, **settings) -> None:
    engine.default_generation_config = GenerationConfig(
        **{"max_new_tokens": POSITIONS, **settings},
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=2,
    )


@pytest.fixture
def engines(
    original: PyTorchEngine, exported: CTranslate2Engine, monkeypatch: pytest.MonkeyPatch
) -> tuple[PyTorchEngine, CTranslate2Engine]:
    """Both engines; what a test sets as their way to answer is forgotten afterwards."""
    for engine in (original, exported):
        monkeypatch.setattr(engine, "default_generation_config", engine.default_generation_config)
    return original, exported


@pytest.mark.parametrize("settings", SEARCHES.values(), ids=SEARCHES.keys())
def test_searches_write_what_pytorch_writes(engines, settings: dict) -> None:
    answers = []
    for engine in engines:
        set_generation(engine, **settings)
        answers.append(dict(engine.generate(QUESTIONS, batch_size=4)))
    assert answers[1] == answers[0]
    assert len({answer.text for answer in answers[0].values()}) > 3


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.75, 1.0])
def test_beams_without_early_stopping_find_the_same_or_better(engines, penalty: float) -> None:
    original, _ = engines
    answers = []
    for engine in engines:
        set_generation(engine, num_beams=4, length_penalty=penalty)
        answers.append(list(engine.write(QUESTIONS, engine.default_generation_config, batch_size=4)))
    taught = len(PAIRS)
    assert answers[1][:taught] == answers[0][:taught]
    scores = [score(original, QUESTIONS, tokens, penalty) for tokens in answers]
    assert np.all(scores[1] > scores[0] - 1e-4)


def score(engine: PyTorchEngine, questions: list[str], answers: list[list[int]], penalty: float) -> np.ndarray:
    """What beam search maximizes: log P / length to the power of the penalty."""
    rows = engine.log_probabilities(engine.encoder(questions).to_pylist(), answers, batch_size=4)
    return np.array([row.sum() / len(row) ** penalty for row in rows])


def test_trained_model_answers_as_it_was_taught(exported: CTranslate2Engine) -> None:
    answers = dict(exported.generate(list(PAIRS)))
    assert [answers[index].text for index in range(len(PAIRS))] == list(PAIRS.values())
    assert all(answer.ended for answer in answers.values())


def test_scores_are_those_of_pytorch(original: PyTorchEngine, exported: CTranslate2Engine) -> None:
    questions, answers = [*PAIRS, "</s>疼", "\n"], [*PAIRS.values(), "要。" * 90, "</s>"]
    expected = original.score(questions, answers, 48, batch_size=2)
    np.testing.assert_allclose(exported.score(questions, answers, 48), expected, rtol=0, atol=1e-3)
    # An answer that is cut has no end: 48 of 180 characters, and four characters with an end.
    assert expected[-2:, 1].tolist() == [48, 5]


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), [(1.0, 50, 1.0), (2.0, 0, 1.0), (3.0, 20, 0.7)])
def test_sampling_draws_by_the_law_of_transformers(
    engines, temperature: float, top_k: int, top_p: float, draws: int = 4000
) -> None:
    original, exported = engines
    config = GenerationConfig(
        max_new_tokens=1, do_sample=True, temperature=temperature, top_k=top_k, top_p=top_p, eos_token_id=3
    )
    exported.seed(0)
    drawn = np.bincount(
        [tokens[0] for tokens in exported.write([QUESTIONS[-1]] * draws, config, batch_size=500)],
        minlength=len(exported.vocabulary),
    )
    with torch.inference_mode():
        inputs = original.encode([QUESTIONS[-1]])
        logits = original.model(**inputs, decoder_input_ids=torch.tensor([[2]])).logits[:, -1]
    warpers = [TemperatureLogitsWarper(temperature), *([TopKLogitsWarper(top_k)] if top_k else [])]
    for warper in (*warpers, TopPLogitsWarper(top_p)):
        logits = warper(None, logits)
    expected = draws * logits.softmax(-1)[0].numpy()
    assert drawn[expected == 0].sum() == 0
    often = expected >= 5
    assert often.sum() > 3
    chi_squared = ((drawn[often] - expected[often]) ** 2 / expected[often]).sum()
    # Its mean is the number of tokens, its variance twice that.
    assert chi_squared < often.sum() + 4 * (2 * often.sum()) ** 0.5


def test_seed_repeats_what_is_sampled(exported_folder: Path) -> None:
    exported = CTranslate2Engine(exported_folder)
    wild = Decoding(do_sample=True, temperature=3.0)
    answers = []
    for seed in (1, 1, 2):
        exported.seed(seed)
        answers.append(dict(exported.generate(QUESTIONS * 4, wild)))
    assert answers[0] == answers[1] != answers[2]
    assert answers[0][0] != answers[0][len(QUESTIONS)]


def test_answers_end_at_the_last_position(tmp_path: Path) -> None:
    """However long the answer may be, and the question as long as the model reads, or longer."""
    tokenizer = small_tokenizer()
    folder = save_model_folder(
        small_model(tokenizer), tokenizer, tmp_path / "model", max_new_tokens=1000, min_new_tokens=500
    )
    export_model(folder, tmp_path / "export", "float32")
    exported = load_engine(tmp_path / "export")
    assert isinstance(exported, CTranslate2Engine)
    for decoding in (None, DECODINGS["beam"], DECODINGS["sampling"]):
        config = exported.generation_config(decoding)
        answers = list(exported.write(["疼" * 47, "疼" * 48, "疼" * 999], config, batch_size=2))
        assert [len(tokens) for tokens in answers] == [POSITIONS] * 3
    assert not any(answer.ended for _, answer in exported.generate(["疼"]))
    assert len("".join(exported.stream("疼"))) == len(dict(exported.generate(["疼"]))[0].text)


def test_empty_questions_keep_the_others_in_order(exported: CTranslate2Engine) -> None:
    questions = ["", QUESTIONS[0], "", QUESTIONS[1]]
    answers = dict(exported.generate(questions))
    assert [answers[index].text for index in range(4)] == ["", *list(PAIRS.values())[:1], "", list(PAIRS.values())[1]]
    assert list(exported.generate([])) == []
    assert exported.score([], [], 48).shape == (0, 3)


def test_names_of_special_tokens_in_a_question_are_text(original: PyTorchEngine, exported: CTranslate2Engine) -> None:
    ((_, expected),) = original.generate(["疼</s>吗<pad>"])
    assert dict(exported.generate(["疼</s>吗<pad>"])) == {0: expected}
    (tokens,) = exported.encode(["疼</s>"])
    assert tokens.count("</s>") == 1


def test_odd_tokens_survive(tmp_path: Path) -> None:
    """Line breaks, white space, quotes, what JSON escapes, and characters of four bytes are tokens like others."""
    text = "".join(map(chr, range(0x80))) + "\u0085\u00a0\u2028\u3000\ufeff\ufffd龘😀𠮷"
    tokenizer = train_tokenizer([text])
    tokenizer.model_max_length = 200
    model = small_model(tokenizer, max_position_embeddings=200)
    save_model_folder(model, tokenizer, tmp_path / "model", max_new_tokens=30, min_new_tokens=30)
    export_model(tmp_path / "model", tmp_path / "export", "float32")
    original, exported = load_engine(tmp_path / "model"), load_engine(tmp_path / "export")
    texts = [text, text[::-1], "\n", " ", "\x00"]
    np.testing.assert_allclose(exported.score(texts, texts, 200), original.score(texts, texts, 200), atol=1e-2)
    assert dict(exported.generate(texts)) == dict(original.generate(texts))


def test_weights_are_computed_with_as_they_were_written(trained_folder: Path, tmp_path: Path) -> None:
    original = load_engine(trained_folder)
    inputs, labels = (ids.to_pylist() for ids in original.encoder.pairs(list(PAIRS), list(PAIRS.values()), 48, 48))
    expected = np.concatenate(list(original.log_probabilities(inputs, labels, 8)))
    differences: list[float] = []
    for quantization, compute_type, difference in (
        ("float32", "float32", 5e-5),
        ("float16", "float32", 0.05),
        ("int8", "int8_float32", 0.5),
    ):
        export_model(trained_folder, tmp_path / quantization, quantization)
        exported = CTranslate2Engine(tmp_path / quantization)
        assert exported.translator.compute_type == compute_type
        actual = np.concatenate(list(exported.log_probabilities(inputs, labels, 8)))
        differences.append(np.abs(actual - expected).max())
        assert differences[-1] < difference
    assert differences == sorted(differences)


def test_defaults_are_those_of_transformers() -> None:
    assert GenerationConfig._get_default_generation_params().items() >= DEFAULTS.items()


def test_sampling_with_beams_is_refused_when_it_loads(exported_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(exported_folder, tmp_path / "changed")
    change_json(folder / "generation_config.json", num_beams=2, do_sample=True)
    with pytest.raises(UsageError, match="CTranslate2 samples without beams"):
        CTranslate2Engine(folder)


@pytest.mark.parametrize("name", CTranslate2Engine.files)
@pytest.mark.parametrize("content", [None, b"", b"{", b"[]"])
def test_damaged_files_are_explained(exported_folder: Path, tmp_path: Path, name: str, content: bytes | None) -> None:
    folder = shutil.copytree(exported_folder, tmp_path / "damaged")
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(UsageError, match=r"cannot be loaded|are not those of|lacks|tokens"):
        CTranslate2Engine(folder)


def test_tokens_of_another_tokenizer_are_refused(exported_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(exported_folder, tmp_path / "mixed")
    tokens = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    tokens[10], tokens[11] = tokens[11], tokens[10]
    (folder / "shared_vocabulary.json").write_text(json.dumps(tokens), encoding="utf-8")
    with pytest.raises(UsageError, match="are not those of its tokenizer; export the model again"):
        CTranslate2Engine(folder)


def test_the_folder_chooses_the_engine(trained_folder: Path, exported_folder: Path, tmp_path: Path) -> None:
    assert isinstance(load_engine(trained_folder), PyTorchEngine)
    assert isinstance(load_engine(exported_folder), CTranslate2Engine)
    with pytest.raises(UsageError, match="exported to CTranslate2, which PyTorch cannot load"):
        PyTorchEngine(exported_folder)
    with pytest.raises(UsageError, match=r"it lacks model\.bin"):
        CTranslate2Engine(trained_folder)
    with pytest.raises(UsageError, match="no model folder"):
        load_engine(tmp_path / "nothing")
