"""What is installed with the package, and what goes into its image."""

import re
import tomllib

from helpers import ROOT

SOURCE = ROOT / "src/wenzhen"


def test_every_file_of_the_package_is_installed_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data = project["tool"]["setuptools"]["package-data"]
    declared = {
        path
        for package, patterns in data.items()
        for pattern in patterns
        for path in (SOURCE.parent / package.replace(".", "/")).glob(pattern)
    }
    present = {path for path in SOURCE.rglob("*.*") if path.suffix != ".py" and "__pycache__" not in path.parts}
    assert declared == present


def test_what_the_image_copies_is_there_and_let_through_to_its_builder() -> None:
    instructions = re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    copied = {name for names in instructions for name in names.split()}
    assert all((ROOT / name).exists() for name in copied)
    let_through = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n!")
    assert copied == {line.split()[0] for line in let_through[1:]}
