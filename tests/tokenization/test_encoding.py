"""From texts to ids: the fast way against the library's own call, and where a text is cut."""

import random

import pytest

from wenzhen.tokenization import KINDS, Encoder, train_tokenizer
from wenzhen.tokenization.texts import SplitTexts, batches, count_characters

TEXTS = ["头痛三天，血压高。", "", "头痛</s>三天<unk>", "龘🤒头", "\n", "a\u0301 b  c", "血压" * 30]
SIZES = {"character": None, "bpe": 300, "wordpiece": 60, "unigram": 300}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    # Without 龘 and 🤒, which are unknown to two of the kinds.
    texts = [text for text in TEXTS if "龘" not in text] * 3
    return train_tokenizer(texts, request.param, vocab_size=SIZES[request.param])


def test_ids_are_those_of_the_tokenizers_own_call(tokenizer):
    generator = random.Random(0)
    texts = TEXTS + ["".join(generator.choices("".join(TEXTS), k=generator.randint(0, 50))) for _ in range(300)]
    assert Encoder(tokenizer)(texts).to_pylist() == tokenizer(texts)["input_ids"]
    for length in (1, 2, 7):
        cut = tokenizer(texts, truncation=True, max_length=length)["input_ids"]
        assert Encoder(tokenizer)(texts, length).to_pylist() == cut


def test_only_a_character_tokenizer_is_looked_up_in_a_table():
    for kind in KINDS:
        found = Encoder(train_tokenizer(TEXTS, kind, vocab_size=SIZES[kind])).table is not None
        assert found == (kind == "character")
    tokenizer = train_tokenizer(TEXTS)
    # One that takes the name of a special token for the token itself.
    tokenizer.split_special_tokens = False
    assert Encoder(tokenizer).table is None
    assert Encoder(tokenizer)(["</s>"]).to_pylist() == [[3, 3]]


@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_nothing_is_no_trouble(tokenizer, texts):
    assert Encoder(tokenizer)(texts, 5).to_pylist() == [[3]] * len(texts)


def test_state_of_earlier_calls_is_neither_used_nor_changed(tokenizer):
    whole = Encoder(tokenizer)(TEXTS).to_pylist()
    tokenizer(TEXTS, truncation=True, max_length=3, padding="max_length")
    before = tokenizer.backend_tokenizer.to_str()
    assert Encoder(tokenizer)(TEXTS).to_pylist() == whole
    assert tokenizer.backend_tokenizer.to_str() == before


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        ("头", "头.", "头."),
        ("头痛", "头痛.", "头痛."),
        ("头痛三", "头痛.", "头痛三"),
        ("头痛三天", "头痛.", "头痛三"),
    ],
    ids=["short", "exact fit", "one too long", "two too long"],
)
def test_a_cut_question_keeps_its_end_and_a_cut_answer_loses_it(text, question, answer):
    """A full stop stands for the end token in the expected tokens."""
    tokenizer = train_tokenizer(["头痛三天"])
    pairs = Encoder(tokenizer).pairs([text], [text], max_question_length=3, max_answer_length=3)
    spelled = [tokenizer.convert_ids_to_tokens(rows.to_pylist()[0]) for rows in pairs]
    assert spelled == [["</s>" if c == "." else c for c in expected] for expected in (question, answer)]


def test_pairs_are_neither_padded_nor_mixed_up():
    tokenizer = train_tokenizer(["头痛三天"])
    tokenizer(["头", "头痛"], padding=True)
    pairs = Encoder(tokenizer).pairs(["头痛", "天"], ["三", "三天痛"], max_question_length=9, max_answer_length=9)
    spelled = [[tokenizer.convert_ids_to_tokens(ids) for ids in rows.to_pylist()] for rows in pairs]
    assert spelled == [[["头", "痛", "</s>"], ["天", "</s>"]], [["三", "</s>"], ["三", "天", "痛", "</s>"]]]


def test_texts_of_a_split_are_its_titles_questions_and_answers_every_time(dataset):
    from wenzhen.corpus.loading import load_split

    split = load_split(dataset, "train")
    texts = SplitTexts(split)
    expected = sorted([*split["title"], *split["question"], *split["answer"]])
    assert sorted(texts) == expected
    assert sorted(texts) == expected


def test_batches_keep_order_and_lose_nothing():
    assert list(batches(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(batches([], 2)) == []


def test_characters_are_counted_in_the_order_of_code_points():
    counts = count_characters(["头痛", "", "头a\n🤒🤒"])
    assert list(counts.items()) == [("\n", 1), ("a", 1), ("头", 2), ("痛", 1), ("🤒", 2)]
