"""The thesis' Transformer."""
