"""What the small Hub of the tests holds: repositories, their commits and files, named as git names them."""

import hashlib
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class File:
    """A file of a commit: its bytes, and whether git holds them or a pointer to them."""

    content: bytes
    lfs: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def pointer(self) -> bytes:
        lines = (
            "version https://git-lfs.github.com/spec/v1",
            f"oid sha256:{self.sha256}",
            f"size {len(self.content)}",
        )
        return "".join(f"{line}\n" for line in lines).encode()

    @property
    def oid(self) -> str:
        blob = self.pointer if self.lfs else self.content
        return hashlib.sha1(b"blob %d\0" % len(blob) + blob).hexdigest()

    def entry(self, path: str) -> dict[str, Any]:
        """Return the file as a listing shows it."""
        described = {"type": "file", "oid": self.oid, "size": len(self.content), "path": path}
        if self.lfs:
            described["lfs"] = {"oid": self.sha256, "size": len(self.content), "pointerSize": len(self.pointer)}
        return described


@dataclass(frozen=True)
class Commit:
    """A state of a repository."""

    oid: str
    title: str
    files: dict[str, File]


@dataclass
class Repository:
    """A repository with its one branch."""

    kind: str
    name: str
    private: bool
    commits: list[Commit] = field(default_factory=list)

    @property
    def files(self) -> dict[str, bytes]:
        """The contents at the head of the branch."""
        return {path: file.content for path, file in self.commits[-1].files.items()}

    def commit(self, title: str, files: dict[str, File]) -> Commit:
        parent = self.commits[-1].oid if self.commits else ""
        tree = [f"{path} {file.oid}" for path, file in sorted(files.items())]
        oid = hashlib.sha1("\n".join((parent, title, *tree)).encode()).hexdigest()
        self.commits.append(Commit(oid, title, files))
        return self.commits[-1]
