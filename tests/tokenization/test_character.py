"""The character tokenizer: its ids, its faithfulness to the text, and its files."""

import json
import shutil
from collections import Counter

import pytest

from wenzhen.errors import UsageError
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.tokenization import load_tokenizer, save_tokenizer, train_tokenizer

TEXTS = [
    "您好，高血压（１级）？38.5℃ ①",
    "第一行\n第二行\r\n\t缩进　全角空格  两个空格",
    "“引号”、《书名》：～！；——……【】",
    "e\u0301 与 é 不同，か\u3099 与 が 不同",
    "👨‍⚕️🤒❤️ 𠮷野家",
    "他写下</s>，又写下<pad><unk><s>。",
    " 首尾空格 ",
    "don 't , do n't .",
    "▁Ġ##[UNK]",
]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS)


def test_special_tokens_come_first_and_agree_with_the_configuration(tokenizer):
    config = WenzhenConfig()
    assert tokenizer.convert_tokens_to_ids(["<pad>", "<unk>", "<s>", "</s>"]) == [0, 1, 2, 3]
    for name in ("pad", "unk", "bos", "eos"):
        assert getattr(tokenizer, f"{name}_token_id") == getattr(config, f"{name}_token_id"), name
    assert config.decoder_start_token_id == tokenizer.bos_token_id


def test_characters_follow_by_frequency_then_by_code_point():
    # c three times; b and 痛 twice; a and 头 once.
    tokenizer = train_tokenizer(["痛cb", "痛c头", "bac"])
    assert tokenizer.convert_ids_to_tokens(range(4, 9)) == ["c", "b", "痛", "a", "头"]
    assert len(tokenizer) == 9


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, ["c", "b", "痛", "a", "头"]),
        ({"min_frequency": 2}, ["c", "b", "痛"]),
        ({"min_frequency": 3}, ["c"]),
        ({"vocab_size": 6}, ["c", "b"]),
        ({"vocab_size": 9}, ["c", "b", "痛", "a", "头"]),
        ({"vocab_size": 100}, ["c", "b", "痛", "a", "头"]),
        ({"min_frequency": 2, "vocab_size": 8}, ["c", "b", "痛"]),
        ({"min_frequency": 2, "vocab_size": 5}, ["c"]),
    ],
)
def test_rare_characters_are_left_out(settings, kept):
    tokenizer = train_tokenizer(["痛cb", "痛c头", "bac"], **settings)
    assert len(tokenizer) == 4 + len(kept)
    assert tokenizer.convert_ids_to_tokens(range(4, len(tokenizer))) == kept


@pytest.mark.parametrize("order", [1, -1])
def test_vocabulary_does_not_depend_on_the_order_of_the_texts(tokenizer, order):
    assert train_tokenizer(TEXTS[::order]).get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_nothing_to_learn_from_is_refused(texts):
    with pytest.raises(UsageError, match="no text to learn from"):
        train_tokenizer(texts)


@pytest.mark.parametrize("settings", [{"min_frequency": 3}, {"vocab_size": 4}, {"vocab_size": 0}])
def test_limits_that_leave_no_character_are_refused(settings):
    with pytest.raises(UsageError, match="no character"):
        train_tokenizer(["头痛", "头"], **settings)


@pytest.mark.parametrize("text", [*TEXTS, "", "\n", " "])
def test_text_comes_back_as_it_went_in(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == [*text, "</s>"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize("name", ["</s>", "<pad>", "<unk>", "<s>"])
def test_the_name_of_a_special_token_is_plain_text(tokenizer, name):
    text = f"他{name}写"
    ids = tokenizer(text)["input_ids"]
    assert ids[-1] == 3 and min(ids[:-1]) >= 4
    assert len(ids) == len(text) + 1
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_each_unknown_character_is_one_unknown_token():
    tokenizer = train_tokenizer(["头痛"])
    known = tokenizer.get_vocab()
    assert tokenizer("头龘龘痛🤒")["input_ids"] == [known["头"], 1, 1, known["痛"], 1, 3]


def test_saved_tokenizer_comes_back_equal_and_without_the_state_of_earlier_calls(tmp_path):
    tokenizer = train_tokenizer(TEXTS)
    tokenizer.model_max_length = 77
    tokenizer(TEXTS, truncation=True, max_length=5, padding="max_length")
    save_tokenizer(tokenizer, tmp_path)
    written = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert written["truncation"] is None and written["padding"] is None
    loaded = load_tokenizer(tmp_path)
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert loaded.special_tokens_map == tokenizer.special_tokens_map
    assert loaded.model_max_length == 77
    for text in [*TEXTS, "龘"]:
        ids = loaded(text)["input_ids"]
        assert ids == tokenizer(text)["input_ids"]
        assert len(ids) == len(text) + 1
    for text in TEXTS:
        assert loaded.decode(loaded(text)["input_ids"], skip_special_tokens=True) == text


def test_saving_twice_writes_the_same_bytes(tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path / "once")
    save_tokenizer(load_tokenizer(tmp_path / "once"), tmp_path / "twice")
    once, twice = ((tmp_path / name / "tokenizer.json").read_bytes() for name in ("once", "twice"))
    assert once == twice


def test_what_a_folder_said_besides_is_not_handed_on(tokenizer, tmp_path):
    tokenizer.model_max_length = 77
    save_tokenizer(tokenizer, tmp_path / "ours")
    written = json.loads((tmp_path / "ours/tokenizer_config.json").read_text(encoding="utf-8"))
    foreign = {"auto_map": {"AutoTokenizer": [None, "mine.T"]}, "secret_path": "/home/alice/x"}
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    (tmp_path / "theirs/tokenizer_config.json").write_text(json.dumps(written | foreign), encoding="utf-8")
    for name in ("ours", "theirs"):
        save_tokenizer(load_tokenizer(tmp_path / name), tmp_path / f"{name}-again")
    ours, theirs = ((tmp_path / f"{name}-again/tokenizer_config.json").read_bytes() for name in ("ours", "theirs"))
    assert theirs == ours
    again = json.loads(ours)
    assert again.items() >= written.items()
    # Where it was loaded from, as transformers notes it.
    assert again.keys() - written.keys() <= {"is_local", "local_files_only"}


def test_settings_that_a_class_of_transformers_knows_survive(tmp_path):
    from transformers import BertTokenizer

    vocab = {token: index for index, token in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "A"))}
    save_tokenizer(BertTokenizer(vocab, do_lower_case=False), tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert type(loaded) is BertTokenizer
    assert loaded.tokenize("A") == ["A"]


def test_file_holds_a_byte_pair_encoder_without_merges_and_nothing_else(tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path)
    written = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert [(token["id"], token["content"], token["special"]) for token in written["added_tokens"]] == [
        (0, "<pad>", True),
        (1, "<unk>", True),
        (2, "<s>", True),
        (3, "</s>", True),
    ]
    assert (written["normalizer"], written["pre_tokenizer"], written["decoder"]) == (None, None, {"type": "Fuse"})
    model = written["model"]
    assert (model["type"], model["unk_token"], model["merges"]) == ("BPE", "<unk>", [])
    counts = Counter(character for text in TEXTS for character in text)
    characters = sorted(counts, key=lambda character: (-counts[character], ord(character)))
    assert list(model["vocab"]) == ["<pad>", "<unk>", "<s>", "</s>", *characters]
    assert list(model["vocab"].values()) == list(range(4 + len(characters)))


def test_folder_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no tokenizer"):
        load_tokenizer(tmp_path)
