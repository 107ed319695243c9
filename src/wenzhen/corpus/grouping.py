"""Groups of records that belong together, directly or through others."""

import numpy as np
import numpy.typing as npt


class Groups:
    """A partition of the numbers below `size`, at first each alone (disjoint-set forest, Tarjan 1975)."""

    def __init__(self, size: int) -> None:
        self._parents = list(range(size))

    def root(self, member: int) -> int:
        """Return the smallest member of a member's group."""
        parents = self._parents
        while parents[member] != member:
            parents[member] = parents[parents[member]]
            member = parents[member]
        return member

    def join(self, one: int, other: int) -> None:
        """Make the groups of two members one."""
        one, other = self.root(one), self.root(other)
        self._parents[max(one, other)] = min(one, other)

    def join_equal(self, codes: npt.NDArray[np.int64]) -> None:
        """Join all members that have the same code; `codes` has one for each."""
        order = np.argsort(codes, kind="stable")
        sorted_codes = codes[order]
        same = np.flatnonzero(sorted_codes[1:] == sorted_codes[:-1])
        for one, other in zip(order[same].tolist(), order[same + 1].tolist(), strict=True):
            self.join(one, other)

    def roots(self) -> npt.NDArray[np.int64]:
        """Return the root of every member."""
        roots = np.array(self._parents, dtype=np.int64)
        while True:
            further = roots[roots]
            if (further == roots).all():
                return roots
            roots = further
