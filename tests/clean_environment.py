"""A Python that sees what a requirements.txt asks for and nothing else, out of what is installed here."""

import os
import sys
import venv
from collections.abc import Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement


def make_environment(folder: Path, requirements: Sequence[str]) -> Path:
    """Make a virtual environment with links to the libraries that requirements name, and to theirs.

    Returns:
        Its Python.
    """
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    found: dict[str, Distribution] = {}
    for requirement in requirements:
        collect(Requirement(requirement), found)
    for library in found.values():
        for name in {file.parts[0] for file in library.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / name).exists():
                (site / name).symlink_to(os.path.abspath(library.locate_file(name)))
    return folder / "bin" / Path(sys.executable).name


def collect(requirement: Requirement, found: dict[str, Distribution]) -> None:
    """Add the library of a requirement, and those that it needs itself, to those that are found."""
    extras = requirement.extras or {""}
    if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
        return
    name = f"{requirement.name}[{','.join(sorted(extras))}]"
    if name in found:
        return
    library = distribution(requirement.name)
    assert requirement.specifier.contains(library.version, prereleases=True) or "+" in library.version
    found[name] = library
    for needed in map(Requirement, library.requires or ()):
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
            needed.marker = None
            collect(needed, found)
