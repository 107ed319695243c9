"""A recurrent encoder-decoder with attention."""
