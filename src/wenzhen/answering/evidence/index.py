"""SKELETON, owned by [evidence]: replace the insides, keep the names."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Evidence:
    """A real consultation beside an answer; `similarity` of its question is from 0 to 1."""

    id: str
    department: str
    question: str
    answer: str
    similarity: float


class EvidenceIndex:
    """An index folder, memory-mapped."""

    def __init__(self, folder: Path) -> None:
        # Below these, the corpus does not cover a question, or the model is guessing; None where it was not measured.
        self.least_similarity = 0.0
        self.least_probability: float | None = None

    def search(self, question: str, count: int = 3) -> list[Evidence]:
        """Return the nearest consultations, the nearest first."""
        return []
