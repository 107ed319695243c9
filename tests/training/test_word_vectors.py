"""Embeddings that start with given vectors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast, set_seed

from wenzhen.errors import UsageError
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration
from wenzhen.recipe import Recipe
from wenzhen.tokenization import KINDS, load_tokenizer, train_tokenizer
from wenzhen.training.initial_model import build_model
from wenzhen.training.run import train
from wenzhen.training.word_vectors import initialize_embeddings, read_word_vectors

MakeRecipe = Callable[..., Recipe]
SIZE = 32


@pytest.fixture
def tokenizer(tokenizer_folder: Path) -> PreTrainedTokenizerFast:
    return load_tokenizer(tokenizer_folder)


def write_vectors(file: Path, vectors: dict[str, np.ndarray]) -> Path:
    lines = [f"{len(vectors)} {SIZE}", *(f"{word} {' '.join(map(str, v))}" for word, v in vectors.items())]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def random_vectors(words: str, scale: float = 3.0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {word: generator.normal(0, scale, SIZE) for word in words}


def make_model(make_recipe: MakeRecipe, tokenizer: PreTrainedTokenizerFast, tied: bool = True):
    set_seed(0)
    return build_model(make_recipe(f"model.tie_word_embeddings={str(tied).lower()}"), tokenizer)


def tables(model: WenzhenForConditionalGeneration) -> list[torch.Tensor]:
    return [side.embed_tokens.weight for side in (model.get_encoder(), model.get_decoder())]


@pytest.mark.parametrize("tied", [True, False])
def test_known_characters_get_their_vectors_and_the_others_stay(
    make_recipe: MakeRecipe, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, tied: bool
) -> None:
    vectors = random_vectors("头痛药龘")
    model, fresh = (make_model(make_recipe, tokenizer, tied) for _ in range(2))
    assert initialize_embeddings(model, tokenizer, write_vectors(tmp_path / "vectors.txt", vectors)) == 3
    known = tokenizer.convert_tokens_to_ids(["头", "痛", "药"])
    given = np.stack([vectors[word] for word in "头痛药"])
    # One factor for all, so that the mean square is a fresh embedding's 1/32.
    expected = given * np.sqrt(1 / 32 / np.mean(given**2))
    others = [token for token in range(len(tokenizer)) if token not in known]
    for table, before in zip(tables(model), tables(fresh), strict=True):
        np.testing.assert_allclose(table[known].detach().numpy(), expected, rtol=1e-5)
        assert torch.equal(table[others], before[others])
    output = model.lm_head.weight
    assert torch.equal(output, tables(model)[1] if tied else fresh.lm_head.weight)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_of_every_kind_are_found_by_their_text(make_recipe: MakeRecipe, tmp_path: Path, kind: str) -> None:
    tokenizer = train_tokenizer(
        ["头痛怎么办", "头痛吃什么药"] * 30, kind, vocab_size=None if kind == "character" else 300
    )
    model = make_model(make_recipe, tokenizer)
    file = write_vectors(tmp_path / "vectors.txt", random_vectors("头药") | {"头痛": np.ones(SIZE)})
    initialize_embeddings(model, tokenizer, file)
    word = next(id_ for id_ in range(4, len(tokenizer)) if tokenizer.decode([id_]) in ("头痛", "头"))
    fresh = make_model(make_recipe, tokenizer)
    assert not torch.equal(tables(model)[0][word], tables(fresh)[0][word])


def test_first_vector_of_a_word_counts_and_other_words_cost_nothing(tmp_path: Path) -> None:
    rows = ["头 1 2", "头 3 4", "痛 苦 5 6", "x y z", "药 7 8"]
    (tmp_path / "v.txt").write_bytes("\n".join([f"{len(rows) + 1} 2", *rows]).encode() + b"\n\xff\xfe 9 9")
    vectors = read_word_vectors(tmp_path / "v.txt", {"头", "痛", "药"}, 2)
    assert {word: vector.tolist() for word, vector in vectors.items()} == {"头": [1, 2], "药": [7, 8]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "its first line must be the number of vectors and their size"),
        ("头 1 2\n", "its first line must be"),
        ("2 300\n头 1 2\n", "have 300 numbers, but model.d_model is 2"),
        ("3 2\n头 1 2\n药 1 2\n", "was cut off: it holds 2 of the 3"),
        ("2 2\n药 1 2\n头 1", "line 3 of .* does not hold a word and 2 numbers"),
        ("1 2\n头 1 x\n", "line 2 of .* does not hold"),
        ("1 2\n头 1 nan\n", "line 2 of .* does not hold"),
        ("1 2\n头 1 \x00\n", "line 2 of .* does not hold"),
        ("1 2\n头 1 1e999\n", "line 2 of .* does not hold"),
        (f"{'9' * 5000} 2\n头 1 2\n", "its first line must be"),
    ],
)
def test_bad_files_are_explained(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_word_vectors(tmp_path / "v.txt", {"头"}, 2)


@pytest.mark.parametrize(("words", "message"), [("abc龘", "no vector for any"), ("", "no vector for any")])
def test_vectors_of_nothing_known(
    make_recipe: MakeRecipe, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, words: str, message: str
) -> None:
    file = write_vectors(tmp_path / "v.txt", random_vectors(words))
    with pytest.raises(UsageError, match=message):
        initialize_embeddings(make_model(make_recipe, tokenizer), tokenizer, file)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e30, 1e300])
def test_scale_of_the_vectors_means_nothing(
    make_recipe: MakeRecipe, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, scale: float
) -> None:
    vectors = random_vectors("头痛")
    models = [make_model(make_recipe, tokenizer) for _ in range(2)]
    for model, factor in zip(models, (1, scale), strict=True):
        file = write_vectors(tmp_path / "v.txt", {word: vector * factor for word, vector in vectors.items()})
        initialize_embeddings(model, tokenizer, file)
    torch.testing.assert_close(*(tables(model)[0] for model in models))


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes("\ufeff1 2\r\n头 1 2\r\n".encode())
    assert read_word_vectors(tmp_path / "v.txt", {"头"}, 2)["头"].tolist() == [1, 2]


def test_vectors_of_zeros(make_recipe: MakeRecipe, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    file = write_vectors(tmp_path / "v.txt", random_vectors("头痛", scale=0.0))
    with pytest.raises(UsageError, match="all zero"):
        initialize_embeddings(make_model(make_recipe, tokenizer), tokenizer, file)


def test_missing_file_costs_no_earlier_model(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/recipe.yaml").write_text("output: here", encoding="utf-8")
    recipe = make_recipe(f"output={tmp_path / 'model'}", f"model.word_vectors={tmp_path / 'nothing.txt'}")
    with pytest.raises(UsageError, match=r"no file of word vectors .*nothing\.txt"):
        train(recipe, overwrite=True)
    assert (tmp_path / "model/recipe.yaml").read_text(encoding="utf-8") == "output: here"


def test_training_starts_with_the_vectors(
    make_recipe: MakeRecipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_vectors(tmp_path / "v.txt", random_vectors("头痛"))
    settings = ["training.max_steps=1", "training.eval_steps=1", "training.learning_rate=1e-9"]
    output = train(make_recipe(f"output={tmp_path / 'model'}", f"model.word_vectors={file}", *settings))
    assert "2 of" in capsys.readouterr().out
    model = WenzhenForConditionalGeneration.from_pretrained(output)
    table = model.get_encoder().embed_tokens.weight
    first, second = load_tokenizer(output).convert_tokens_to_ids(["头", "痛"])
    given = random_vectors("头痛")
    cosine = torch.nn.functional.cosine_similarity(table[first], torch.from_numpy(given["头"]).float(), dim=0)
    assert cosine.item() == pytest.approx(1, abs=1e-5)
    assert torch.dot(table[first], table[second]).item() == pytest.approx(
        float(given["头"] @ given["痛"] / np.mean(np.stack(list(given.values())) ** 2) / SIZE), rel=1e-4
    )
