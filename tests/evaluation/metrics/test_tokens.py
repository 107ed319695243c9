"""Tokens against the libraries' own, and jieba's quietness."""

import tempfile
from pathlib import Path

import jieba
import pytest
from answer_pairs import PREDICTIONS, REFERENCES
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

from wenzhen.evaluation.metrics import tokens
from wenzhen.evaluation.metrics.tokens import characters, chinese_tokens, words
from wenzhen.words import jieba_tokenizer as shared_tokenizer

TEXTS = PREDICTIONS + REFERENCES


def test_characters_leave_out_every_kind_of_blank() -> None:
    assert characters(" 您好\n\t3.5\u3000mg ") == "您好3.5mg"


ANY_CHARACTER = st.characters(exclude_categories=["Cs"])


@given(st.text(st.sampled_from("好，。？…\u201c 09.,-%a[~\n\u3000ＡＢ℃①💊") | ANY_CHARACTER))
def test_chinese_tokens_are_sacrebleus(text: str) -> None:
    assert chinese_tokens(text) == TokenizerZh()(text.rstrip()).split()


def test_chinese_tokens_by_hand() -> None:
    assert chinese_tokens("每日3.5mg.好") == ["每", "日", "3.5mg", ".", "好"]


def test_words_are_jiebas(jieba_tokenizer: jieba.Tokenizer) -> None:
    for text in TEXTS:
        # The one place where rouge-chinese cuts a word.
        expected = [word.replace(".......", "...... .") for word in jieba_tokenizer.cut(text) if word.strip()]
        assert words(text) == " ".join(expected).split(), text


@pytest.mark.parametrize("mark", "，。！？；")
def test_no_word_of_jiebas_goes_across_a_clause(jieba_tokenizer: jieba.Tokenizer, mark: str) -> None:
    assert not any(mark in word for word in jieba_tokenizer.FREQ if len(word) > 1)


def test_jieba_says_nothing_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shared_tokenizer.cache_clear()
    tokens._segment.cache_clear()
    assert words("高血压要少吃盐") == ["高血压", "要少", "吃盐"]
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
