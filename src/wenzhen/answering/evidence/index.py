"""Looking up the real consultations nearest to a question."""

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from wenzhen.answering.evidence.postings import Postings
from wenzhen.errors import UsageError
from wenzhen.folders import hash_file

# What an index folder holds; the first marks it as one.
META_FILE = "meta.json"
CONSULTATIONS_FILE = "consultations.arrow"
POSTINGS = "postings"
CONTENTS = (META_FILE, CONSULTATIONS_FILE, POSTINGS)
# A damaged one may have lost the first of these.
MARKS = (META_FILE, CONSULTATIONS_FILE, f"{POSTINGS}/params.index.json")
# Of the layout of an index folder, and of how texts are cut into words: another version's cannot be used.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """A real consultation; `similarity` of its question is from 0 to 1.

    Its texts are the training data's here; beside an answer the safety rules have withheld doses from them.
    """

    id: str
    department: str
    question: str
    answer: str
    similarity: float


class EvidenceIndex:
    """An index folder, memory-mapped; any number of threads may search it at a time.

    Args:
        folder: what `wenzhen index` left; it may have been moved.

    Raises:
        UsageError: it holds no index, a damaged one, or one of another version.

    Attributes:
        meta: what is known about it, see [`wenzhen.answering.evidence.building.build_index`].
        digest: a hash of all that is found in it.
        least_similarity: a question whose nearest consultation is less similar is not covered.
        least_probability: below it, the model is unsure of its answer; None where it was not measured.
    """

    def __init__(self, folder: Path) -> None:
        with explained(folder):
            content = (folder / META_FILE).read_bytes()
            self.meta: dict[str, Any] = json.loads(content)
            check_meta(self.meta)
            check_files(folder, self.meta["files"])
            self.postings = Postings(folder / POSTINGS, self.meta["words_per_question"])
            self.table = read_table(folder / CONSULTATIONS_FILE)
            self.least_similarity: float = self.meta["least_similarity"]
            self.least_probability: float | None = self.meta["least_probability"]
        self.digest = hashlib.sha256(content).hexdigest()

    def __len__(self) -> int:
        return self.postings.count

    def search(self, question: str, count: int = 3) -> list[Evidence]:
        """Return the nearest consultations, the nearest first, each answer once; none that shares no word.

        Args:
            question: what is asked.
            count: how many at most.
        """
        found: dict[str, Evidence] = {}
        for row, similarity in zip(*self.postings.nearest(question), strict=True):
            if len(found) == count:
                break
            record = {name: self.table[name][int(row)].as_py() for name in self.table.column_names}
            # The same answer again is no further evidence.
            found.setdefault(record["answer"], Evidence(**record, similarity=float(similarity)))
        return list(found.values())


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Name the index folder, and what to do, where something in it cannot be read.

    Raises:
        UsageError: it cannot, whatever the block raised.
    """
    try:
        yield
    # What a damaged file makes the libraries raise is anybody's guess.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(
            f"the index in {folder} cannot be used: {reason}; make it again: "
            f"wenzhen index {folder.parent} --overwrite, or remove the folder and answer without evidence"
        ) from error


def check_meta(meta: dict[str, Any]) -> None:
    """Refuse a meta.json by which nothing can be looked up.

    Raises:
        ValueError: which says what is wrong; or another error.
    """
    if meta["version"] != VERSION:
        raise ValueError(f"it is of version {meta['version']}, not {VERSION}")
    shares = {"least_similarity": meta["least_similarity"]}
    if meta["least_probability"] is not None:
        shares["least_probability"] = meta["least_probability"]
    for name, share in shares.items():
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise ValueError(f"{name} must be from 0 to 1, got {share!r}")
    words = meta["words_per_question"]
    if type(words) not in (int, float) or not 0 < words < math.inf:
        raise ValueError(f"words_per_question must be a number above 0, got {words!r}")


def check_files(folder: Path, digests: dict[str, str]) -> None:
    """Refuse a folder with other files than its meta.json names.

    Raises:
        ValueError: which says what is wrong; or another error.
    """
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {META_FILE}
    # Before any is opened: a name may lead out of the folder.
    if different := sorted(present ^ digests.keys()):
        name = different[0]
        raise ValueError(f"{name} is none of its files" if name in present else f"there is no {name}")
    for name, digest in digests.items():
        if hash_file(folder / name) != digest:
            raise ValueError(f"{name} has changed")


def read_table(file: Path) -> pa.Table:
    """Open an Arrow file without reading it."""
    return pa.ipc.open_file(pa.memory_map(str(file))).read_all()
