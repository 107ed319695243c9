"""The files that go along to the Hub as they are."""

from pathlib import Path

from wenzhen.errors import UsageError

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def check_companion(folder: Path, file: Path) -> None:
    """Refuse a file that would publish something else than what its folder seems to hold.

    Raises:
        UsageError: it is a link or lies behind one, or it is named `.png` and is none.
    """
    if file.resolve() != folder.resolve() / file.relative_to(folder):
        raise UsageError(f"{file} is a link, or lies behind one; put the file itself there, or remove the link")
    if file.suffix == ".png":
        with file.open("rb") as content:
            if content.read(len(PNG_SIGNATURE)) != PNG_SIGNATURE:
                raise UsageError(f"{file} is no PNG picture; draw it again, or remove it")
