"""Tokenizers of four kinds: trained, saved, loaded, compared, and used on many texts at once.

All kinds share their special tokens (pad 0, unk 1, bos 2, eos 3), end every text with eos, have one vocabulary for
questions and answers, and leave a text as it is: no normalization, so that Chinese punctuation, full-width forms and
line breaks survive. The name of a special token inside a text is plain text.
"""

from wenzhen.tokenization.encoding import Encoder
from wenzhen.tokenization.folder import load_tokenizer, save_tokenizer
from wenzhen.tokenization.kinds import KINDS, train_tokenizer

__all__ = ["KINDS", "Encoder", "load_tokenizer", "save_tokenizer", "train_tokenizer"]
