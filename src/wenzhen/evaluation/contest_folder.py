"""A comparison's folder: what may stand in it, and how it is begun and gone on with."""

import json
import shutil
from pathlib import Path
from typing import Any

from wenzhen.errors import UsageError
from wenzhen.folders import check_output_folder, replace_file

# The result, which marks a folder as a comparison's; it holds what was asked before there is a result.
COMPARISON_FILE = "comparison.json"
REPORT_MARKDOWN, REPORT_PAGE = "report.md", "report.html"
FIGURES, SYSTEMS = "figures", "systems"
CONTENTS = (COMPARISON_FILE, REPORT_MARKDOWN, REPORT_PAGE, FIGURES, SYSTEMS)


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
    if file.is_file() and not overwrite:
        try:
            begun = json.loads(file.read_text(encoding="utf-8"))["asked"]
        except (ValueError, LookupError, TypeError) as error:
            raise UsageError(f"{file} is damaged; add --overwrite to compare anew") from error
        if begun == asked:
            return
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


def write_result(output: Path, content: dict[str, Any]) -> None:
    """Write the comparison's file, whole."""
    with replace_file(output / COMPARISON_FILE) as draft:
        draft.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
