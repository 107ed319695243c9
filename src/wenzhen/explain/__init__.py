"""Figures that explain the model, from the model's own code: why √d, what positions carry, what masks hide, and where
the attention goes.

Each topic has a module here that computes its numbers and one in `drawing/` that draws them; `report.py` makes the
folder, `page.py` its page.
"""

TOPICS = ("saturation", "positions", "masks", "attention")
