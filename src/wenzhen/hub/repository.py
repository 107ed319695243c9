"""A repository of the Hub: who may write there, and one commit in which a folder's files replace earlier ones."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants, is_offline_mode
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars, enable_progress_bars, validate_repo_id

from wenzhen.errors import RunError, UsageError

Kind = Literal["dataset", "model", "space"]


def check_push(repository: str, kind: Kind, private: bool = False) -> None:
    """Refuse a push that cannot succeed, before any long work.

    Args:
        repository: `OWNER/NAME`.
        kind: what the repository holds.
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
            public = not api.repo_info(repository, repo_type=kind).private
        except RepositoryNotFoundError:
            public = False
    check_account(account, repository)
    if private and public:
        raise UsageError(
            f"{repository} is a public repository already; make it private in its settings, or name another"
        )


def commit(
    repository: str, kind: Kind, private: bool, files: Mapping[str, Path | bytes], replaced: Sequence[str]
) -> str:
    """Make the repository where there is none, and put the files there in one commit, in the place of earlier ones.

    Args:
        repository: `OWNER/NAME`.
        kind: what the repository holds.
        private: whether a new repository is for its owner alone.
        files: contents by their paths in the repository.
        replaced: patterns of the paths that an earlier push may have left and that go where `files` lacks them; a `*`
            stays within its folder.

    Returns:
        The URL of what was pushed, the commit in it.

    Raises:
        UsageError: the token may not write there.
        RunError: the Hub cannot be reached, or fails; nothing is published then.
    """
    # Loading a model switches them off.
    if sys.stderr.isatty() and not constants.HF_HUB_DISABLE_PROGRESS_BARS:
        enable_progress_bars()
    else:
        disable_progress_bars()
    api = HfApi()
    with hub_errors(repository):
        # None leaves an organization's own choice.
        url = api.create_repo(
            repository,
            repo_type=kind,
            private=private or None,
            exist_ok=True,
            space_sdk="gradio" if kind == "space" else None,
        )
        parent = api.repo_info(repository, repo_type=kind).sha
        present = api.list_repo_files(repository, repo_type=kind, revision=parent)
        stale = [path for path in present if path not in files and any(matches(path, old) for old in replaced)]
        # `upload_folder` would spread the files over several commits.
        pushed = api.create_commit(
            repository,
            [
                *(CommitOperationDelete(path) for path in stale),
                *(CommitOperationAdd(path, content) for path, content in files.items()),
            ],
            commit_message=f"Push a {kind} made by wenzhen",
            repo_type=kind,
            # Who pushes at the same time is refused rather than mixed in.
            parent_commit=parent,
        )
    # With the commit's hash, which a card asks to pin.
    return f"{url}/tree/{pushed.oid}"


def matches(path: str, pattern: str) -> bool:
    """Tell whether a path matches a pattern whose `*` stays within its folder."""
    return path.count("/") == pattern.count("/") and fnmatch(path, pattern)


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
