"""Speed on this machine: against a peer of the same shape with the same weights, and of the kinds of layers.

Nothing here needs more than torch, transformers and, to draw layers, matplotlib, so that it also runs where the data
libraries are missing.
"""
