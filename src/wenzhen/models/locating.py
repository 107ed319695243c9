"""Where a model is: in a folder, or on the Hub."""

from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError

from wenzhen.errors import UsageError

ADVICE = "make one with: make quickstart, or wenzhen train RECIPE"


def find_model(source: str, files: Sequence[str]) -> Path:
    """Return the folder of a model, fetched from the Hub where it is not on this machine.

    Args:
        source: a folder, or `OWNER/NAME` or `OWNER/NAME@REVISION` on the Hub.
        files: patterns of what to fetch; a model's code is never wanted.

    Raises:
        UsageError: there is no such model, or it cannot be fetched.
    """
    folder = Path(source)
    if folder.exists():
        return folder
    name, _, revision = source.partition("@")
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=list(files)))
    except HFValidationError as error:
        raise UsageError(f"no model folder {source}; {ADVICE}") from error
    # An HTTP library's own errors come through.
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UsageError(
            f"no model folder {source}; {ADVICE}; nor can the Hub's model of that name be fetched: {reason}"
        ) from error
