"""Speed against a peer of the same shape with the same weights, on this machine.

Nothing here needs more than torch and transformers, so that it also runs where the data libraries are missing.
"""
