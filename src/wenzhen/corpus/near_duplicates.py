"""Finding texts that say nearly the same: MinHash over character 5-grams, then the exact Jaccard similarity.

The signatures are rensa's: 128 values of 32 bits, of which the lowest 8 are kept (Li and König, "b-Bit Minwise
Hashing", 2010). Texts that agree in one of 16 bands of 8 values are compared. A pair of similarity 0.8 is found with
probability 1 - (1 - 0.8^8)^16 = 0.947, one of 0.9 with 0.9999 (Leskovec et al., "Mining of Massive Datasets", 3.4).
Of a group only one text is compared in each band, so that its last members are found a little less often.

Where more than 8 unlike texts agree in a band, as form letters do that differ in a few words each, 8 of them are
compared with all the others there, and the others not among themselves: the work grows with the texts, not with their
square. A pair of such texts is found only through one of these 8, or in a band where fewer texts agree.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from rensa import RMinHash
from tqdm import tqdm

from wenzhen.corpus.grouping import Groups
from wenzhen.errors import RunError

THRESHOLD = 0.8

_SHINGLE = 5
_VALUES = 128
_BANDS = 16
_SEED = 42
_ROUNDS = 8
_BATCH = 5_000
_BATCH_CHARACTERS = 2_000_000
_WORTH_A_PROCESS = 50_000
# A pair whose signatures agree less than this is not compared: three standard errors below the threshold.
_WORTHWHILE = THRESHOLD - 3 * (THRESHOLD * (1 - THRESHOLD) / _VALUES) ** 0.5


def near_duplicates_in_each(columns: Sequence[pa.StringArray]) -> list[npt.NDArray[np.int64]]:
    """Return [`near_duplicates`] of every column; where they are long, of each in a process of its own.

    Raises:
        RunError: such a process fails.
    """
    if max(map(len, columns)) < _WORTH_A_PROCESS:
        return [near_duplicates(column) for column in columns]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for column in columns[:-1]:
            processes.append(fresh_process())
            send(column, processes[-1])
        here = near_duplicates(columns[-1])
        return [*map(result_of, processes), here]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def fresh_process() -> "subprocess.Popen[bytes]":
    """Start this module as a process that inherits no threads, and needs nothing of the script that asks."""
    return subprocess.Popen(
        # Without -P, a file of the current directory could take the place of a module.
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TQDM_DISABLE": "1"},
        # Ctrl-C is for the process that asks, which kills this one.
        process_group=0,
    )


def send(texts: pa.StringArray, process: "subprocess.Popen[bytes]") -> None:
    """Hand a process its texts, and leave its input open: where it closes, the process ends."""
    assert process.stdin
    # Of a process that has ended, the status is told with its result.
    with suppress(BrokenPipeError):
        process.stdin.write(pickle.dumps(texts))
        process.stdin.flush()


def result_of(process: "subprocess.Popen[bytes]") -> npt.NDArray[np.int64]:
    """Wait for the groups that a process found."""
    assert process.stdout
    with process.stdout as output:
        pickled = output.read()
    if process.wait():
        raise RunError(f"the search for near-duplicates ended with status {process.returncode}; is memory short?")
    return pickle.loads(pickled)


def answer_the_parent() -> None:
    """Group the texts of the standard input; end without a word as soon as whoever asked is gone."""

    def watch() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        texts = pickle.load(sys.stdin.buffer)
    except (EOFError, pickle.UnpicklingError):
        sys.exit(1)
    threading.Thread(target=watch, daemon=True).start()
    pickle.dump(near_duplicates(texts), sys.stdout.buffer)
    sys.stdout.flush()
    # The watching thread holds the standard input, which an ordinary end would wait for.
    os._exit(0)


def near_duplicates(texts: pa.StringArray) -> npt.NDArray[np.int64]:
    """Group texts whose sets of character 5-grams have a Jaccard similarity of at least [`THRESHOLD`].

    Args:
        texts: different texts, none empty.

    Returns:
        For each text the number of the first text of its group.
    """
    if not len(texts):
        return np.zeros(0, dtype=np.int64)
    signatures = np.concatenate([signatures_of(batch.to_pylist()) for batch in batches_of(texts)])
    comparison = Comparison(texts, signatures)
    bands = signatures.view(np.uint64)
    rng = np.random.default_rng(_SEED)
    for band in tqdm(range(_BANDS), desc="near-duplicates", unit=" bands", disable=None, leave=False):
        members, buckets = mixed_buckets(bands[:, band], comparison.groups.roots(), rng)
        for _ in range(_ROUNDS):
            if not len(members):
                break
            # Each bucket's first text against its others; those unlike it are compared among themselves in turn.
            is_first = np.diff(buckets, prepend=-1) != 0
            firsts = members[is_first][np.cumsum(is_first) - 1]
            rest = ~is_first & ~comparison.join_similar(firsts, members)
            members, buckets = members[rest], buckets[rest]
    return comparison.groups.roots()


def batches_of(texts: pa.StringArray) -> Iterator[pa.StringArray]:
    """Cut texts into batches of at most 5,000, with no more than 2 M characters beside the first of them."""
    # A text counts for no less than its signature takes.
    sizes = pc.utf8_length(texts).to_numpy() + _BATCH_CHARACTERS // _BATCH
    starts = np.flatnonzero(np.diff(np.cumsum(sizes) // _BATCH_CHARACTERS, prepend=-1)).tolist()
    for start, end in pairwise([*starts, len(texts)]):
        yield texts[start:end]


def signatures_of(texts: list[str]) -> npt.NDArray[np.uint8]:
    """Return the MinHash signatures `[texts, 128]` of the texts' 5-grams; a shorter text counts as one 5-gram."""
    # Padded, so that every text has a 5-gram and no 5-gram of a text reaches into the next.
    characters = np.frombuffer("".join(text + "\0" * (_SHINGLE - 1) for text in texts).encode("utf-32-le"), np.uint32)
    lengths = np.array([len(text) for text in texts])
    hashes = np.zeros(len(characters) - _SHINGLE + 1, dtype=np.uint64)
    for place in range(_SHINGLE):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + characters[place : place + len(hashes)]
    hashes ^= hashes >> np.uint64(32)
    counts = np.maximum(lengths - _SHINGLE + 1, 1)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    starts = np.concatenate([[0], np.cumsum(lengths + _SHINGLE - 1)[:-1]])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(hashes[places], offsets.astype(np.uint64), _VALUES, _SEED)
    return np.array(matrix.to_rows(), dtype=np.uint32).astype(np.uint8)


def mixed_buckets(
    keys: npt.NDArray[np.uint64], roots: npt.NDArray[np.int64], rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Find the texts that share a key with a text of another group.

    Returns:
        One text of each group for every key, sorted by key, and numbers from 0 that stand for the keys.
    """
    # Of each group another text at every turn: one that is like its neighbours in the bucket comes up sooner or later.
    order = np.lexsort((rng.random(len(keys)), roots, keys))
    keys, roots = keys[order], roots[order]
    is_new_key = np.concatenate([[True], keys[1:] != keys[:-1]])
    is_new = is_new_key | np.concatenate([[True], roots[1:] != roots[:-1]])
    members, buckets = order[is_new], (np.cumsum(is_new_key) - 1)[is_new]
    shared = np.bincount(buckets)[buckets] > 1
    return members[shared], buckets[shared]


class Comparison:
    """Compares texts by pairs, and joins those that are similar in `groups`."""

    def __init__(self, texts: pa.StringArray, signatures: npt.NDArray[np.uint8]) -> None:
        self.groups = Groups(len(texts))
        self._texts = texts
        self._signatures = signatures

    def join_similar(self, ones: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Join the groups of the pairs that are similar, and tell of each pair whether it is of one group now."""
        together = ones == others
        compared, shingles = -1, set[str]()
        for start in range(0, len(ones), _BATCH):
            block = slice(start, start + _BATCH)
            agreement = (self._signatures[ones[block]] == self._signatures[others[block]]).mean(axis=1)
            for pair in (start + np.flatnonzero((agreement >= _WORTHWHILE) & ~together[block])).tolist():
                one, other = int(ones[pair]), int(others[pair])
                if self.groups.root(one) != self.groups.root(other):
                    if one != compared:
                        compared, shingles = one, shingles_of(self._texts[one].as_py())
                    if similarity(shingles, shingles_of(self._texts[other].as_py())) < THRESHOLD:
                        continue
                    self.groups.join(one, other)
                together[pair] = True
        return together


def shingles_of(text: str) -> set[str]:
    """Return the character 5-grams of a text, or the text itself where it is shorter."""
    return {text[start : start + _SHINGLE] for start in range(max(len(text) - _SHINGLE + 1, 1))}


def similarity(one: set[str], other: set[str]) -> float:
    """Return the Jaccard similarity of two sets that are not both empty."""
    common = len(one & other)
    return common / (len(one) + len(other) - common)


if __name__ == "__main__":
    answer_the_parent()
