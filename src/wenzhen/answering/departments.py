"""SKELETON, owned by [departments]: replace the insides, keep the names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DepartmentGuess:
    """The department that a question seems to belong to, with its probability; and all of them, the likeliest first."""

    name: str
    probability: float
    ranking: tuple[tuple[str, float], ...]


class DepartmentGuesser:
    """A classifier folder, loaded."""

    def __init__(self, folder: Path) -> None: ...

    def guess(self, questions: Sequence[str]) -> list[DepartmentGuess]:
        """Return a guess for each question."""
        raise NotImplementedError
