"""A comparison's folder: what may stand in it, and how it is begun and gone on with."""

import json
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from wenzhen.errors import UsageError
from wenzhen.folders import check_output_folder, replace_file
from wenzhen.models import METRICS_FILE, PARTIAL_PREDICTIONS, PREDICTIONS_FILE

# The result, which marks a folder as a comparison's; it holds what was asked before there is a result.
COMPARISON_FILE = "comparison.json"
REPORT_MARKDOWN, REPORT_PAGE = "report.md", "report.html"
FIGURES, SYSTEMS = "figures", "systems"
CONTENTS = (COMPARISON_FILE, REPORT_MARKDOWN, REPORT_PAGE, FIGURES, SYSTEMS)
FILES = (
    COMPARISON_FILE,
    REPORT_MARKDOWN,
    REPORT_PAGE,
    *(f"{FIGURES}/{name}.{kind}" for name in ("quality", "speed", "losses") for kind in ("png", "svg")),
    *(f"{SYSTEMS}/*/{name}" for name in (METRICS_FILE, PREDICTIONS_FILE, PARTIAL_PREDICTIONS)),
    # A file that was being written when its process was killed.
    "*.draft",
)


def open_output(output: Path, asked: dict[str, Any], overwrite: bool) -> None:
    """Begin a comparison's folder, or go on with one that was asked the same.

    Args:
        output: the folder.
        asked: what determines the comparison.
        overwrite: whether another comparison there may go.

    Raises:
        UsageError: the folder holds another comparison and `overwrite` is off, or something else.
    """
    file = output / COMPARISON_FILE
    if file.is_file():
        check_content(output)
        begun = read_asked(file)
        if begun == asked and not overwrite:
            return
    if file.is_file() and not overwrite:
        changed = sorted(key for key in {*begun, *asked} if begun.get(key) != asked.get(key))
        raise UsageError(
            f"{output} holds a comparison with other {', '.join(changed)}; add --overwrite to replace it, or name "
            "another --output"
        )
    check_output_folder(output, CONTENTS, overwrite)
    for name in reversed(CONTENTS):
        path = output / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    output.mkdir(parents=True, exist_ok=True)
    write_result(output, {"asked": asked})


def read_asked(file: Path) -> dict[str, Any]:
    """Return what a comparison was asked.

    Raises:
        UsageError: the file is none of a comparison.
    """
    try:
        asked = json.loads(file.read_text(encoding="utf-8"))["asked"]
        if isinstance(asked, dict):
            return asked
        reason = f"asked is {asked!r}"
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        reason = repr(error)
    raise UsageError(
        f"{file} is no comparison, or damaged ({reason[:100]}); name another --output, or remove the folder"
    )


def check_content(output: Path) -> None:
    """Refuse a folder with files that no comparison makes, which would be lost.

    Raises:
        UsageError: there are some.
    """
    for path in sorted(output.rglob("*")):
        name = path.relative_to(output).as_posix()
        if not path.is_dir() and not any(fnmatch(name, pattern) for pattern in FILES):
            raise UsageError(f"{path} is none of a comparison's files; name another --output")


def write_result(output: Path, content: dict[str, Any]) -> None:
    """Write the comparison's file, whole."""
    with replace_file(output / COMPARISON_FILE) as draft:
        draft.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
