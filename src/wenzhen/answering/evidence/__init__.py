"""The consultations that an answer can be held against: those of the training split nearest to the question."""

from wenzhen.answering.evidence.index import Evidence, EvidenceIndex

__all__ = ["Evidence", "EvidenceIndex"]
