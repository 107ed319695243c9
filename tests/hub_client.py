"""A reader of the Hub: a process of its own that runs what a card prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

# What a patient wrote, which goes nowhere.
SECRET = "请打我电话13900000000"


def run_python(code: str, folder: Path, environment: dict[str, str]) -> str:
    """Run code in a fresh interpreter that starts in `folder`; return what it printed."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def usage(card: str) -> str:
    """Return the Python that a card prints for its readers."""
    block = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    assert block
    return block[1]
