"""A Space: the demo, the package's source and a model in one folder that serves wherever Python does; its way to the
Hub.

Nothing of it is taken from the environment, so that no token or path of this machine goes along.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import yaml
from huggingface_hub import SpaceCardData, metadata_load

import wenzhen
from wenzhen.errors import UsageError
from wenzhen.folders import check_output_folder, published_folder
from wenzhen.hub.card import plain, render_card
from wenzhen.hub.companions import check_companion
from wenzhen.hub.repository import check_name, check_push, commit
from wenzhen.models import EVIDENCE, EXPORTED_WEIGHTS, FIGURE, SAFETY_RULES
from wenzhen.models.locating import find_model
from wenzhen.recipe import RECIPE_FILE

PACKAGE_FOLDER = "wenzhen"
# Where the demo looks for a model.
MODEL_FOLDER = "model"
# What a Space may hold; the header of the first marks it.
CONTENTS = ("README.md", "requirements.txt", "LICENSE", "app.py", PACKAGE_FOLDER, MODEL_FOLDER)
# What an earlier push may have left in the repository that this one has no more; a `*` stays within its folder.
REPLACED = tuple(f"{folder}/{'*/' * depth}*" for folder in (PACKAGE_FOLDER, MODEL_FOLDER) for depth in range(5))
# Of the package's folder; what else may lie there is nobody else's business.
SOURCES = ("**/*.py", "**/*.yaml", "**/*.jinja", "**/*.css", "**/*.js", "explain/fonts/*.otf", "explain/fonts/OFL.txt")
# Of its folders' files, what this package writes and Python adds; a `*` reaches into folders.
OURS = (
    *(f"{PACKAGE_FOLDER}/{source.removeprefix('**/')}" for source in SOURCES),
    f"{PACKAGE_FOLDER}/*__pycache__/*.pyc",
    *(f"{MODEL_FOLDER}/{name}" for name in ("README.md", "recipe.yaml", SAFETY_RULES, EXPORTED_WEIGHTS, FIGURE)),
    *(f"{MODEL_FOLDER}/{name}" for name in ("*.json", "*.safetensors", "*configuration_*.py", "*modeling_*.py")),
    *(f"{MODEL_FOLDER}/{EVIDENCE}/*.{kind}" for kind in ("arrow", "npy")),
)
# In the header of its README.md, beside what every Space says there.
TAG = "wenzhen"
# The libraries that serving imports itself.
SERVING = (
    "bm25s",
    "ctranslate2",
    "datasets",
    "gradio",
    "huggingface_hub",
    "jieba",
    "jinja2",
    "numpy",
    "pyarrow",
    "pyyaml",
    "tokenizers",
    "torch",
    "tqdm",
    "transformers",
)
# As the project's own.
APP = '''"""The Gradio demo and a Space's entry point.

python app.py --model outputs/quickstart
"""

import sys

from wenzhen.demo.main import main
from wenzhen.errors import run

if __name__ == "__main__":
    sys.exit(run(main))
'''
GOES_ALONG = "it holds the {count:,} consultations in {folder}, of which it shows the nearest: may they be published?"
LEFT_OUT = (
    "left out: the {count:,} consultations in {folder}, which you may not be free to publish; without them the page "
    "shows no evidence, and does not tell which questions they do not cover (--with-evidence publishes them)"
)
FETCHED = "the Space fetches the model when it starts; where that is private, give the Space the secret HF_TOKEN"


@dataclass(frozen=True)
class Space:
    """A Space's contents by their paths in it, and what to tell whoever makes it."""

    files: Mapping[str, Path | bytes]
    notes: tuple[str, ...]


def push_space(source: str, repository: str, private: bool, with_evidence: bool) -> tuple[str, tuple[str, ...]]:
    """Publish a model's demo as a Space, in one commit.

    Args:
        source: a model folder, an export to CTranslate2, or `OWNER/NAME[@REVISION]` of a model on the Hub.
        repository: `OWNER/NAME` of the Space; made where there is none.
        private: whether a new Space is for its owner alone.
        with_evidence: publish the consultations that the model's folder has indexed, too.

    Returns:
        The URL of what was pushed, the commit in it; and what to know about it.

    Raises:
        UsageError: there is no such model or a damaged one, or as [`check_push`].
        RunError: the Hub cannot be reached, or fails; nothing is published then.
    """
    check_push(repository, "space", private)
    with prepared(source, repository, with_evidence) as space:
        return commit(repository, "space", private, space.files, REPLACED), space.notes


def write_space(
    source: str, repository: str, output: Path, with_evidence: bool, overwrite: bool = False
) -> tuple[str, ...]:
    """Write into a folder what [`push_space`] publishes; it appears whole or not at all.

    Returns:
        What to know about it.

    Raises:
        UsageError: there is no such model or a damaged one, the name is malformed, or the output is not free.
    """
    check_name(repository)
    check_output_folder(output, CONTENTS, overwrite)
    check_earlier(output)
    with prepared(source, repository, with_evidence) as space, published_folder(output, CONTENTS, overwrite) as draft:
        for path, content in space.files.items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                (draft / path).write_bytes(content)
            else:
                shutil.copyfile(content, draft / path)
        return space.notes


def check_earlier(output: Path) -> None:
    """Refuse to replace a folder that holds what a Space does, but was not written by [`write_space`].

    Raises:
        UsageError: which says by what that shows.
    """
    files = sorted(path for path in output.rglob("*") if path.is_symlink() or path.is_file())
    if not files:
        return
    foreign = [name for file in files if is_foreign(file, name := file.relative_to(output).as_posix())]
    if foreign or not is_marked(output / "README.md"):
        what = ", ".join(foreign[:3]) or f"no README.md of a Space with the tag {TAG}"
        raise UsageError(f"the output folder {output} holds other files ({what}); name a new or empty folder")


def is_foreign(file: Path, name: str) -> bool:
    """Tell whether a file in the place of a Space's, by its path in it, is one that no Space holds."""
    # What stands at the top has been looked at.
    return file.is_symlink() or ("/" in name and not any(fnmatch(name, pattern) for pattern in OURS))


def is_marked(card: Path) -> bool:
    """Tell whether a README.md is that of a Space that this package wrote."""
    try:
        header = metadata_load(card) or {}
    except (OSError, ValueError, yaml.YAMLError):
        return False
    tags = header.get("tags")
    return header.get("sdk") == "gradio" and isinstance(tags, list) and TAG in tags


@contextmanager
def prepared(source: str, repository: str, with_evidence: bool) -> Iterator[Space]:
    """Yield a Space's contents, which last as long as the block; see [`push_space`]."""
    with tempfile.TemporaryDirectory(prefix="wenzhen-") as scratch:
        if Path(source).exists():
            model, (served, notes) = None, folder_files(Path(source), Path(scratch), with_evidence)
        else:
            model, (served, notes) = pinned_model(source, with_evidence), ({}, (FETCHED,))
        files: dict[str, Path | bytes] = {
            "README.md": space_card(repository, model, with_evidence).encode(),
            "app.py": app(model).encode(),
            "requirements.txt": requirements().encode(),
            **licence(),
            **package_files(),
            **{f"{MODEL_FOLDER}/{path}": file for path, file in served.items()},
        }
        yield Space(files, notes)


def folder_files(folder: Path, scratch: Path, with_evidence: bool) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Return what goes along of a model's folder by the paths in a Space's, and what to know about it.

    Args:
        folder: a model folder, or an export to CTranslate2.
        scratch: an empty folder.
        with_evidence: whether the consultations that it has indexed go along.

    Raises:
        UsageError: see [`push_space`].
    """
    # They load torch: what is wrong above is said at once.
    from wenzhen.answering.evidence import EvidenceIndex
    from wenzhen.hub.space_model import evidence_files, write_model

    write_model(folder, scratch)
    files = {path.relative_to(scratch).as_posix(): path for path in sorted(scratch.rglob("*")) if path.is_file()}
    if with_evidence:
        files |= evidence_files(folder)
    evidence = folder / EVIDENCE
    if not evidence.is_dir():
        return files, ()
    note = GOES_ALONG if with_evidence else LEFT_OUT
    return files, (note.format(count=len(EvidenceIndex(evidence)), folder=evidence),)


def pinned_model(source: str, with_evidence: bool) -> str:
    """Return a Hub's model with the commit that it stands at.

    Raises:
        UsageError: there is no such model, or the evidence is wanted, which lies in folders alone.
    """
    if with_evidence:
        raise UsageError(f"{source} is no folder, and the Hub's models hold no evidence; leave out --with-evidence")
    folder = find_model(source, [RECIPE_FILE])
    if not (folder / RECIPE_FILE).is_file():
        raise UsageError(f"{source} has no {RECIPE_FILE}; name a model that was published with wenzhen push")
    # The folder of a snapshot is named by its commit.
    return f"{source.partition('@')[0]}@{folder.name}"


def app(model: str | None) -> str:
    """Return the Space's program: the project's own, and the name of the Hub's model, where it is to serve one."""
    if model is None:
        return APP
    # A variable in the Space's settings goes first.
    named = f'    os.environ.setdefault("WENZHEN_MODEL", "{model}")\n'
    return APP.replace("import sys\n", "import os\nimport sys\n", 1).replace("    sys.exit", f"{named}    sys.exit", 1)


def requirements() -> str:
    """Return the requirements.txt: what serving imports, in the versions that are installed here."""
    # A local part, as that of `2.13.0+cpu`, names a build that an index need not have.
    return "".join(f"{name}=={metadata.version(name).partition('+')[0]}\n" for name in SERVING)


def licence() -> dict[str, bytes]:
    """Return the licence of the package by its path, where the package was installed with it."""
    text = metadata.distribution("wenzhen").read_text("licenses/LICENSE")
    return {"LICENSE": text.encode()} if text else {}


def package_files() -> dict[str, Path]:
    """Return the package's source by the paths in a Space.

    Raises:
        UsageError: a file is a link.
    """
    folder = Path(wenzhen.__file__).parent
    paths = sorted({path for pattern in SOURCES for path in folder.glob(pattern) if path.is_file()})
    for path in paths:
        check_companion(folder, path)
    return {f"{PACKAGE_FOLDER}/{path.relative_to(folder).as_posix()}": path for path in paths}


def space_card(repository: str, model: str | None, has_evidence: bool) -> str:
    """Return a Space's README.md.

    Args:
        repository: `OWNER/NAME` of the Space.
        model: the Hub's model that it serves; None where the model lies in it.
        has_evidence: whether it holds consultations.
    """
    title = repository.split("/")[1]
    # The one for which the requirements hold.
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    data = SpaceCardData(
        title=title,
        emoji="🩺",
        colorFrom="blue",
        colorTo="green",
        sdk="gradio",
        sdk_version=metadata.version("gradio"),
        python_version=python,
        app_file="app.py",
        # Of a model it depends on whose the training texts are, which is not in them.
        license="apache-2.0" if model else "unknown",
        short_description="A machine's answers to medical questions; no doctor's",
        models=[model.partition("@")[0]] if model else None,
        tags=[TAG, "medical", "question-answering"],
        # Within somebody else's page it could pass for theirs.
        disable_embedding=True,
    )
    return render_card(
        "space_card.md.jinja", data, title=title, model=plain(model or ""), has_evidence=has_evidence, python=python
    )
