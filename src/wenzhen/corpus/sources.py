"""Where the records of a corpus lie: its files, the department that each belongs to, and their encoding."""

import codecs
import os
import re
from dataclasses import dataclass
from pathlib import Path

from wenzhen.corpus.schema import DATASET_FILE, DEPARTMENTS, SOURCE_FILES
from wenzhen.errors import UsageError

FORMATS = (".csv", ".jsonl", ".parquet")
UTF8, GB18030 = "utf-8", "gb18030"

_BLOCK = 2**20
_ASCII = bytes(range(128))
# What UTF-8 writes in one byte or two.
_SHORT = re.compile("[\0-\u07ff]+")


@dataclass(frozen=True, slots=True)
class Source:
    """One file of a corpus; `name` is its path below the input, to print; `department` that of its folder, if any."""

    path: Path
    name: str
    department: str | None = None


def find_sources(where: Path, default_department: str | None = None) -> tuple[list[Source], list[str]]:
    """Find the files of a corpus.

    A file below a folder that ends in a department's name, as `Andriatria_男科/`, belongs to it. Where one file does,
    all six departments must be there, and a file outside their folders is ignored unless there is a default for it.

    Args:
        where: a file, or a folder that is searched through, links followed.
        default_department: what a file belongs to that no folder assigns.

    Returns:
        The files, in the departments' order and by name, and the names of those ignored, as links to nowhere.

    Raises:
        UsageError: there is no such file, or a department has none.
        OSError: a folder cannot be read.
    """
    if where.is_file():
        if where.suffix.lower() not in FORMATS:
            raise UsageError(f"{where} is not one of {', '.join(FORMATS)}")
        return [Source(where, printable(where.name))], []
    if not where.is_dir():
        raise UsageError(f"the input {where} is neither a file nor a folder")
    sources, unreadable = [], []
    for path in find_files(where):
        name = printable(str(path.relative_to(where)))
        if path.is_file():
            sources.append(Source(path, name, folder_department(path, where)))
        else:
            unreadable.append(name)
    if not sources:
        raise UsageError(f"{where} holds no file of the kinds {', '.join(FORMATS)}")
    found = {source.department for source in sources if source.department}
    if not found:
        return sources, unreadable
    missing = [department for department in DEPARTMENTS if department not in found]
    if missing:
        example = SOURCE_FILES[missing[0]]
        raise UsageError(
            f"{where} holds files of {len(found)} of the {len(DEPARTMENTS)} departments; missing: "
            f"{', '.join(missing)} (as {example}: any file in a folder that ends in _{missing[0]})"
        )
    order = {department: index for index, department in enumerate(DEPARTMENTS)}
    taken = [source for source in sources if source.department or default_department]
    taken.sort(key=lambda source: order.get(source.department or "", len(order)))
    return taken, sorted(unreadable + [source.name for source in sources if source not in taken])


def find_files(folder: Path) -> list[Path]:
    """Return whatever is named like a file of a known format below a folder; links are followed, no folder twice.

    What is hidden is left out, and so are datasets that were built there.

    Raises:
        OSError: a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise error

    found: list[Path] = []
    visited: set[Path] = set()
    for root, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        # A link may lead back to where it came from, or to its neighbour, which keeps its own name.
        if (place := Path(root).resolve()) in visited or DATASET_FILE in names:
            folders.clear()
            continue
        visited.add(place)
        folders[:] = [name for name in folders if not name.startswith(".")]
        folders.sort(key=lambda name: (Path(root, name).is_symlink(), name))
        paths = [Path(root, name) for name in names if not name.startswith(".")]
        found += [path for path in paths if path.suffix.lower() in FORMATS]
    return sorted(found)


def printable(name: str) -> str:
    """Return a name on one line, with escapes for what cannot be printed, as bytes that are no UTF-8."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)


def folder_department(path: Path, base: Path) -> str | None:
    """Return the department that the nearest folder above a file names, None where none does."""
    folders = (part.rpartition("_")[2] for part in reversed(path.relative_to(base).parts[:-1]))
    return next((name for name in folders if name in DEPARTMENTS), None)


def check_encoding(name: str) -> None:
    """Refuse an encoding that is unknown, holds no Chinese, or hides commas and line ends inside characters.

    Raises:
        UsageError: it is such a one.
    """
    try:
        fits = _ASCII.decode(name) == _ASCII.decode("ascii") and not "中".encode(name)[:1].isascii()
    except (LookupError, UnicodeError):
        fits = False
    if not fits:
        raise UsageError(
            f"--encoding {name} cannot be read; give one that keeps ASCII bytes as they are, like utf-8, gb18030, gbk "
            f"or big5, or convert the files first (iconv -f {name} -t UTF-8 FILE)"
        )


def detect_encoding(path: Path) -> str:
    """Return `utf-8` or `gb18030`, whichever the file is, also where some of its bytes are damaged.

    UTF-8 is tried first: GB18030 decodes most of it into nonsense without an error. In a file that is not strictly
    UTF-8 the larger part decides: Chinese text in GB18030 seldom makes longer UTF-8 sequences.

    Raises:
        UsageError: the file is UTF-16.
    """
    decoder = codecs.getincrementaldecoder(UTF8)()
    with path.open("rb") as file:
        block = file.read(_BLOCK)
        # Without a mark, the Latin letters that a header begins with have a NUL beside each.
        if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or block[:4].count(0) == 2:
            raise UsageError(f"{printable(str(path))} is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8")
        sample = b""
        try:
            while block:
                if len(sample) < _BLOCK and (foreign := re.search(rb"[\x80-\xff]", block)):
                    sample += block[foreign.start() :]
                decoder.decode(block)
                block = file.read(_BLOCK)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return UTF8 if is_mostly_utf8(sample) else GB18030
    return UTF8


def is_mostly_utf8(sample: bytes) -> bool:
    """Tell whether at least half of the bytes beyond ASCII are in UTF-8 sequences of three or four, as Chinese is.

    Text in GB18030 is full of what looks like sequences of two.
    """
    foreign = len(sample.translate(None, _ASCII))
    valid = len(_SHORT.sub("", sample.decode(UTF8, "ignore")).encode())
    return 2 * valid >= foreign
