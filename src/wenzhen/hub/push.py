"""A dataset folder's way to the Hub: Parquet shards, the card and the report, in one commit."""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetInfo, SplitDict, SplitInfo
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants, is_offline_mode
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars, validate_repo_id

from wenzhen.corpus.loading import load_split
from wenzhen.corpus.schema import FACTS_FILE, REPORT_FILE
from wenzhen.corpus.splitting import SPLITS
from wenzhen.errors import RunError, UsageError
from wenzhen.hub.card import dataset_card

# Of a shard's rows in memory; in the file they are smaller. The Hub's viewer wants shards of this size.
SHARD_BYTES = 500_000_000
# What goes along from a dataset folder. The rejected records never do: they are what people wrote, uncleaned.
COMPANIONS = (REPORT_FILE, "report.md", FACTS_FILE, "figures/*.png")
# What an earlier push may have left in the repository that this one has no more.
REPLACED = (*(f"data/{split}-*" for split in SPLITS), FACTS_FILE, "figures/*.png")


def check_push(repository: str, private: bool = False) -> None:
    """Refuse a push that cannot succeed, before any long work.

    Args:
        repository: the dataset repository, `OWNER/NAME`.
        private: whether it is to be private.

    Raises:
        UsageError: the name is malformed, the Hub is switched off, there is no token, it may not write there, or the
            repository is public already and must be private.
        RunError: the Hub cannot be reached, or fails.
    """
    check_name(repository)
    if is_offline_mode():
        raise UsageError(f"cannot push to {repository}: HF_HUB_OFFLINE is set; unset it")
    api = HfApi()
    with hub_errors(repository):
        account = api.whoami()
        try:
            public = not api.dataset_info(repository).private
        except RepositoryNotFoundError:
            public = False
    check_account(account, repository)
    if private and public:
        raise UsageError(
            f"{repository} is a public repository already; make it private in its settings, or name another"
        )


def push_dataset(folder: Path, repository: str, private: bool, shard_bytes: int = SHARD_BYTES) -> str:
    """Publish a dataset folder as a dataset repository, which `datasets.load_dataset` loads by its name.

    One commit holds everything: whoever loads the repository meanwhile gets the old dataset or the new one.

    Args:
        folder: what build_dataset.py made.
        repository: `OWNER/NAME`; made where there is none.
        private: whether a new repository is for its owner alone.
        shard_bytes: the most bytes of rows in one Parquet file.

    Returns:
        The repository's URL.

    Raises:
        UsageError: the folder holds no dataset, or as [`check_push`].
        RunError: the Hub cannot be reached, or fails; nothing is published then.
    """
    splits, report = read_folder(folder)
    check_push(repository, private)
    companions = {
        path.relative_to(folder).as_posix(): path for pattern in COMPANIONS for path in sorted(folder.glob(pattern))
    }
    with tempfile.TemporaryDirectory(prefix="wenzhen-") as scratch:
        shards = write_shards(splits, Path(scratch), shard_bytes)
        info = describe(splits, sum(path.stat().st_size for path in shards.values()))
        figures = [path.name for path in companions.values() if path.suffix == ".png"]
        card = dataset_card(repository, report, info, figures).encode()
        return commit(repository, private, {"README.md": card, **companions, **shards})


def read_folder(folder: Path) -> tuple[dict[str, Dataset], dict[str, Any]]:
    """Return a dataset folder's splits and its report.

    Raises:
        UsageError: the folder holds no dataset with a report that fits it.
    """
    splits = {name: load_split(folder, name) for name in SPLITS}
    file = folder / REPORT_FILE
    advice = "build the dataset again with data_scripts/build_dataset.py"
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{folder} has no {REPORT_FILE}; {advice}") from None
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}; {advice}") from error
    rows = {name: len(split) for name, split in splits.items()}
    if not isinstance(report, dict) or report.get("splits") != rows:
        raise UsageError(f"{file} does not describe the splits that lie beside it ({rows}); {advice}")
    return splits, report


def write_shards(splits: dict[str, Dataset], folder: Path, shard_bytes: int) -> dict[str, Path]:
    """Write every split as Parquet files of about equal numbers of rows.

    Returns:
        The files by their paths in the repository.
    """
    (folder / "data").mkdir()
    shards = {}
    for name, split in splits.items():
        number = min(split.data.nbytes // shard_bytes + 1, len(split))
        for index in range(number):
            path = f"data/{name}-{index:05d}-of-{number:05d}.parquet"
            split.shard(number, index, contiguous=True).to_parquet(folder / path)
            shards[path] = folder / path
    return shards


def describe(splits: dict[str, Dataset], download_bytes: int) -> DatasetInfo:
    """Return what a card's header tells of a dataset: features, splits and sizes."""
    sizes = SplitDict()
    for name, split in splits.items():
        sizes.add(SplitInfo(name=name, num_bytes=split.data.nbytes, num_examples=len(split)))
    return DatasetInfo(
        features=next(iter(splits.values())).features,
        splits=sizes,
        download_size=download_bytes,
        dataset_size=sum(size.num_bytes for size in sizes.values()),
    )


def commit(repository: str, private: bool, files: dict[str, Path | bytes]) -> str:
    """Make the repository where there is none, and put the files there in one commit, in the place of earlier ones.

    Returns:
        The repository's URL.
    """
    if not sys.stderr.isatty():
        disable_progress_bars()
    api = HfApi()
    with hub_errors(repository):
        # None leaves an organization's own choice.
        url = api.create_repo(repository, repo_type="dataset", private=private or None, exist_ok=True)
        parent = api.dataset_info(repository).sha
        present = api.list_repo_files(repository, repo_type="dataset", revision=parent)
        stale = [path for path in present if path not in files and any(fnmatch(path, old) for old in REPLACED)]
        # `upload_folder` would spread the files over several commits.
        api.create_commit(
            repository,
            [
                *(CommitOperationDelete(path) for path in stale),
                *(CommitOperationAdd(path, content) for path, content in files.items()),
            ],
            commit_message="Push a dataset built by wenzhen",
            repo_type="dataset",
            # Who pushes at the same time is refused rather than mixed in.
            parent_commit=parent,
        )
    return str(url)


def check_name(repository: str) -> None:
    """Refuse what cannot be a repository's name.

    Raises:
        UsageError: it is not `OWNER/NAME`.
    """
    try:
        validate_repo_id(repository)
        valid = repository.count("/") == 1 and repository.isascii()
    except HFValidationError:
        valid = False
    if not valid:
        raise UsageError(
            f"a repository is named OWNER/NAME, of letters, digits and single - _ . inside; got `{repository}`"
        )


def check_account(account: Any, repository: str) -> None:
    """Refuse a token that may not write to the repository, as far as the Hub tells.

    Args:
        account: what `HfApi.whoami` returns.
        repository: `OWNER/NAME`.

    Raises:
        UsageError: the token only reads, or the owner is neither its user nor an organization of theirs.
        RunError: the Hub does not tell whose the token is.
    """
    try:
        role = ((account.get("auth") or {}).get("accessToken") or {}).get("role")
        owners = [account["name"], *(organization["name"] for organization in account.get("orgs") or [])]
        told = all(isinstance(name, str) for name in owners)
    except (AttributeError, KeyError, TypeError):
        told = False
    if not told:
        raise RunError(
            f"no push to {repository}: {constants.ENDPOINT} does not tell whose the token is; check HF_ENDPOINT, and "
            "that no login or proxy stands before it"
        )
    owner = repository.split("/")[0]
    if role == "read":
        raise UsageError(
            f"the token of {owners[0]} may only read; use one that may write (`hf auth login`, or HF_TOKEN)"
        )
    # What a fine-grained token may reach, only the attempt tells.
    if role == "write" and owner.lower() not in (name.lower() for name in owners):
        raise UsageError(f"{owners[0]} cannot write to {repository}; the owners allowed are: {', '.join(owners)}")


@contextmanager
def hub_errors(repository: str) -> Iterator[None]:
    """Turn whatever goes wrong between this machine and the Hub into one line.

    Raises:
        UsageError: the Hub refuses the token, or there is none.
        RunError: anything else.
    """
    try:
        yield
    # The client raises its own errors, its HTTP library's, and plain ones.
    except Exception as error:
        # An upload's own error stands behind that of its thread.
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
        login = "log in with `hf auth login`, or set HF_TOKEN"
        if isinstance(cause, LocalTokenNotFoundError):
            raise UsageError(f"cannot push to {repository} without a token; {login}") from error
        reason = (getattr(cause, "server_message", None) or str(cause) or type(cause).__name__).splitlines()[0]
        status = cause.response.status_code if isinstance(cause, HfHubHTTPError) else None
        if status == 401:
            raise UsageError(f"{constants.ENDPOINT} refuses the token (HTTP 401: {reason}); {login}") from error
        if status == 403:
            raise UsageError(
                f"the token may not write to {repository} (HTTP 403: {reason}); {login}, with a token that may"
            ) from error
        raise RunError(
            f"no push to {repository}, {constants.ENDPOINT} fails: {reason}; nothing is published by halves, try again"
        ) from error
