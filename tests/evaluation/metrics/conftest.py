"""What the tests of the metrics share."""

import jieba
import pytest


@pytest.fixture(scope="session")
def jieba_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> jieba.Tokenizer:
    """Return jieba's own segmenter, set up in its own way."""
    tokenizer = jieba.Tokenizer()
    tokenizer.tmp_dir = str(tmp_path_factory.mktemp("jieba"))
    tokenizer.initialize()
    return tokenizer
