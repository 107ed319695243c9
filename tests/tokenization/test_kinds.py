"""What the kinds of tokenizers have in common, and what each does by itself."""

import json
import os
import random
import subprocess
import sys
import unicodedata

import pytest

from wenzhen.errors import UsageError
from wenzhen.tokenization import KINDS, load_tokenizer, save_tokenizer, train_tokenizer

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
TEXTS = [
    "您好，我最近血压有点高（１级），头痛三天了。38.5℃ ①",
    "头痛、头晕要紧吗？血压高怎么办？头痛三天了",
    "第一行\n第二行\r\n\t缩进　全角空格  两个空格\n\n\n",
    "“引号”、《书名》：～！；——……【】",
    "e\u0301 与 é 不同，か\u3099 与 が 不同",
    "👨‍⚕️🤒❤️ 𠮷野家 👩🏽‍🔬",
    "他写下</s>，又写下<pad><unk><s>和[UNK][PAD]<0x41>。",
    " 首尾空格 ",
    "don 't , do n't . I 'm",
    "▁Ġ##[UNK] ##头 ▁头",
    "",
    "\n",
    "   ",
]
# Each vocabulary holds what the kind needs and some hundred pieces.
SIZES = {"character": None, "bpe": 400, "wordpiece": 300, "unigram": 450}


def spread_texts(seed: int) -> list[str]:
    """Return texts of characters from all planes, halves of surrogate pairs left out."""
    generator = random.Random(seed)
    planes = [(0x0, 0x2FFF), (0x3000, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x3FFFF)]
    planes += [(0xE0000, 0xEFFFF), (0xF0000, 0x10FFFF)]
    return [
        "".join(chr(generator.randint(*generator.choice(planes))) for _ in range(generator.randint(1, 60)))
        for _ in range(100)
    ]


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def tokenizer(kind, tmp_path_factory):
    """Return a tokenizer that has been saved and loaded."""
    folder = tmp_path_factory.mktemp(kind)
    save_tokenizer(train_tokenizer(TEXTS * 3, kind, vocab_size=SIZES[kind]), folder)
    assert {path.name for path in folder.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    return load_tokenizer(folder)


def test_special_tokens_come_first_and_eos_ends_every_text(tokenizer):
    assert tokenizer.convert_ids_to_tokens(range(4)) == SPECIAL
    ids = [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id]
    assert ids == [0, 1, 2, 3]
    for text in TEXTS:
        *body, end = tokenizer(text)["input_ids"]
        assert end == 3 and all(4 <= index < len(tokenizer) for index in body)
    assert tokenizer("")["input_ids"] == [3]


def test_ids_are_without_gaps_and_within_the_vocabulary_asked_for(tokenizer, kind):
    assert sorted(tokenizer.get_vocab().values()) == list(range(len(tokenizer)))
    assert SIZES[kind] is None or len(tokenizer) <= SIZES[kind]


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_as_it_went_in(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_text_of_all_planes_comes_back(kind):
    seen, unseen = spread_texts(1), spread_texts(2)
    tokenizer = train_tokenizer(seen, kind, vocab_size=None if kind in ("character", "bpe") else 4000)
    for text in seen + (unseen if kind in ("bpe", "unigram") else []):
        ids = tokenizer(text)["input_ids"]
        assert 1 not in ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_an_unknown_character_costs_itself_and_nothing_around_it(tokenizer, kind):
    run = "头痛三天血压" * 40
    text = f"{run}龘{run}，🛞🛞！{run}龘"
    assert not set("龘🛞") & set("".join(TEXTS))
    ids = tokenizer(text)["input_ids"]
    restored = tokenizer.decode(ids, skip_special_tokens=True)
    if kind in ("bpe", "unigram"):
        assert 1 not in ids and restored == text
    else:
        assert ids.count(1) == 4 and restored == text.replace("龘", "").replace("🛞", "")


def test_no_piece_becomes_the_name_of_a_special_token(kind):
    """The names are by far the most frequent strings, alone and within words."""
    names = [*SPECIAL, "[UNK]", "[PAD]", "<0x41>", "<0xE5>"]
    texts = [f"{name}{name}头{name}痛a{name}1{name} {name}\n" for name in names] * 50
    tokenizer = train_tokenizer(texts, kind, vocab_size=SIZES[kind])
    own = tokenizer.convert_ids_to_tokens(range(4, len(tokenizer)))
    # Unigram's tokens of bytes are written as <0x41>, and are no text either.
    pieces = own[256:] if kind == "unigram" else own
    assert not set(names) & set(pieces)
    for text in [*names, *texts]:
        ids = tokenizer(text)["input_ids"]
        assert min(ids[:-1]) >= (260 if kind == "unigram" else 4)
        assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_pieces_lie_within_words(tokenizer, kind):
    if kind != "character":
        tokens = tokenizer.convert_ids_to_tokens(range(260 if kind in ("bpe", "unigram") else 4, len(tokenizer)))
        texts = [tokenizer.backend_tokenizer.decode([tokenizer.convert_tokens_to_ids(token)]) for token in tokens]
        # A token of bytes may be part of a character, which is shown as U+FFFD.
        long = [text for text in texts if len(text) > 1 and "\ufffd" not in text]
        assert len(long) > 10
        assert all(unicodedata.category(character)[0] in "LMN" for text in long for character in text)


@pytest.mark.parametrize("text", ["头痛血压" * 500, "a" * 3000, " " * 3000, "。" * 3000, "\u0301" * 3000])
def test_a_long_run_is_no_trouble(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_two_processes_with_other_threads_and_hashes_train_the_same_bytes():
    script = (
        "import sys, hashlib, json; from wenzhen.tokenization import kinds as k\n"
        "texts = json.load(sys.stdin)\n"
        "backends = [k.train_character(texts, None, 1), k.train_bpe(texts, 900, 1),\n"
        "    k.train_wordpiece(texts, 900, 1, texts), k.train_unigram(texts, 600)]\n"
        "print([hashlib.sha256(backend.to_str().encode()).hexdigest() for backend in backends])"
    )
    generator = random.Random(3)
    words = [
        "".join(generator.choices("头痛晕血压高低三天发烧咳嗽胸闷心慌", k=generator.randint(2, 6))) for _ in range(300)
    ]
    texts = ["，".join(generator.choices(words, k=8)) for _ in range(400)]
    written = set()
    for number in ("1", "3"):
        environment = os.environ | {
            "PYTHONHASHSEED": number,
            "RAYON_NUM_THREADS": number,
            "TOKENIZERS_PARALLELISM": "true",
        }
        process = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps(texts),
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        written.add(process.stdout)
    assert len(written) == 1


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        ("bpe", 259, "259 tokens is too small for bpe: it needs at least 260"),
        ("unigram", 260, "260 tokens is too small for unigram: it needs at least 261"),
        # Four special tokens and three characters.
        ("wordpiece", 6, r"6 tokens is too small for wordpiece: it needs at least 7 \(.*3 characters"),
        ("sentencepiece", None, "no tokenizer kind sentencepiece; there are: character, bpe, wordpiece, unigram"),
    ],
)
def test_what_is_impossible_is_refused(kind, size, message):
    with pytest.raises(UsageError, match=message):
        train_tokenizer(["头痛，头痛"], kind, vocab_size=size)


@pytest.mark.parametrize(("kind", "size"), [("bpe", 260), ("unigram", 261), ("wordpiece", 7)])
def test_the_smallest_vocabulary_is_enough(kind, size):
    tokenizer = train_tokenizer(["头痛，头痛"], kind, vocab_size=size)
    assert len(tokenizer) == size
    assert tokenizer.decode(tokenizer("头痛，头")["input_ids"], skip_special_tokens=True) == "头痛，头"


def test_texts_without_letters_are_no_food_for_wordpiece():
    with pytest.raises(UsageError, match="no letter"):
        train_tokenizer(["？？", "！"], "wordpiece")


def test_bpe_merges_the_most_frequent_pair_first():
    # The pairs, by words: ab 5 times, bc 3 times, xy twice; nothing else.
    tokenizer = train_tokenizer(["ab ab", "abc abc abc", "xy xy"], "bpe", vocab_size=262)
    assert tokenizer.convert_ids_to_tokens(range(260, 262)) == ["ab", "abc"]
    assert tokenizer("abc")["input_ids"] == [261, 3]
    assert tokenizer("abab")["input_ids"] == [260, 260, 3]
    # Two merges make the three bytes of a character one token.
    tokenizer = train_tokenizer(["头，头"], "bpe", vocab_size=1000)
    assert len(tokenizer) == 262
    assert tokenizer("头")["input_ids"] == [261, 3]


def test_bpe_makes_no_piece_of_rare_pairs():
    texts = ["ab ab ab", "cd cd"]
    made = [len(train_tokenizer(texts, "bpe", vocab_size=1000, min_frequency=least)) - 260 for least in (1, 2, 3, 4)]
    # Once is never enough.
    assert made == [2, 2, 1, 0]


def test_wordpiece_takes_the_longest_piece_from_the_left():
    texts = ["高血压，高血压，高血压，血压", "头痛三天，头痛三天", "三天"] * 2
    tokenizer = train_tokenizer(texts, "wordpiece", vocab_size=100)
    vocabulary = tokenizer.get_vocab()
    assert {"血压", "高血压", "头痛", "三天"} <= set(vocabulary)
    generator = random.Random(0)
    for _ in range(200):
        word = "".join(generator.choices("高血压头痛三天", k=generator.randint(1, 20)))
        expected, rest = [], word
        while rest:
            expected.append(next(rest[:end] for end in range(len(rest), 0, -1) if rest[:end] in vocabulary))
            rest = rest[len(expected[-1]) :]
        assert tokenizer.convert_ids_to_tokens(tokenizer(word)["input_ids"]) == [*expected, "</s>"]


def test_wordpiece_leaves_rare_characters_out_and_gives_their_place_to_pieces():
    texts = ["头痛头痛头痛", "龘", "血压血压", "▁"]
    whole = train_tokenizer(texts, "wordpiece", vocab_size=12)
    common = train_tokenizer(texts, "wordpiece", vocab_size=12, min_frequency=2)
    # Six characters and two pieces; or four characters and, with nothing more to make, all pieces there are.
    assert whole.convert_ids_to_tokens(range(4, 12)) == ["▁", "压", "头", "痛", "血", "龘", "头痛", "血压"]
    tokens = common.convert_ids_to_tokens(range(4, len(common)))
    assert tokens[:6] == ["压", "头", "痛", "血", "头痛", "血压"]
    assert not {"龘", "▁"} & set(tokens)
    assert common("头龘痛▁")["input_ids"].count(1) == 2


def test_pieces_come_from_the_sample_and_characters_from_all_texts(kind):
    sample = ["血压血压血压"]
    tokenizer = train_tokenizer([*sample, "头痛头痛头痛"], kind, vocab_size=SIZES[kind], sample=sample)
    tokens = {tokenizer.backend_tokenizer.decode([index]) for index in range(4, len(tokenizer))}
    assert "头痛" not in tokens
    assert ("血压" in tokens) == (kind != "character")
    for text in ("血压", "头痛"):
        assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text
