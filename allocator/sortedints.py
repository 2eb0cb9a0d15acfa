"""A sorted set of ints that stays fast with hundreds of thousands of members.

A plain sorted list with `bisect` moves half of itself on every insertion, which dominates beyond
some ten thousand members; a tree in pure Python pays an interpreter round per level. Blocks of
some hundred members need two binary searches in C and one short move. `sortedcontainers` is the
same idea; this is the part of it that an allocator needs, without the dependency.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

_BLOCK = 512  # members in a fresh block; it is split at twice as many


class SortedInts:
    """A set of ints in ascending order.

    Args:
        ascending: the first members, already sorted and distinct.
    """

    __slots__ = ("_blocks", "_tops")

    def __init__(self, ascending: Iterable[int] = ()) -> None:
        members = list(ascending)
        self._blocks = [members[i : i + _BLOCK] for i in range(0, len(members), _BLOCK)]
        self._tops = [block[-1] for block in self._blocks]  # the greatest member of each block

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def __iter__(self) -> Iterator[int]:
        for block in self._blocks:
            yield from block

    def greatest(self) -> int | None:
        """Return the greatest member, None if there is none."""
        return self._tops[-1] if self._tops else None

    def from_(self, bound: int) -> int | None:
        """Return the smallest member that is not below `bound`, None if there is none."""
        at = bisect_left(self._tops, bound)
        if at == len(self._tops):
            return None
        block = self._blocks[at]
        return block[bisect_left(block, bound)]

    def around(self, bound: int) -> tuple[int | None, int | None]:
        """Return the greatest member below `bound` and the smallest one that is not below it."""
        at = bisect_left(self._tops, bound)
        if at == len(self._tops):
            return self.greatest(), None
        block = self._blocks[at]
        place = bisect_left(block, bound)
        if place:
            return block[place - 1], block[place]
        return (self._tops[at - 1] if at else None), block[0]

    def add(self, member: int) -> None:
        """Add a member that is not in the set yet."""
        at = bisect_left(self._tops, member)
        if at == len(self._tops):
            self._append(member)
            return
        block = self._blocks[at]
        insort(block, member)
        if len(block) > 2 * _BLOCK:
            self._split(at)

    def remove(self, member: int) -> None:
        """Take a member out.

        Raises:
            KeyError: it is not in the set.
        """
        at, place = self._find(member)
        block = self._blocks[at]
        del block[place]
        if not block:
            del self._blocks[at], self._tops[at]
        elif place == len(block):
            self._tops[at] = block[-1]

    def replace(self, member: int, successor: int) -> None:
        """Put `successor` in the place of `member`; no other member may lie between the two.

        Raises:
            KeyError: `member` is not in the set.
        """
        at, place = self._find(member)
        block = self._blocks[at]
        block[place] = successor
        if place == len(block) - 1:
            self._tops[at] = successor

    def _find(self, member: int) -> tuple[int, int]:
        at = bisect_left(self._tops, member)
        if at < len(self._tops):
            block = self._blocks[at]
            place = bisect_left(block, member)
            if block[place] == member:
                return at, place
        raise KeyError(member)

    def _append(self, member: int) -> None:
        if not self._blocks:
            self._blocks.append([member])
            self._tops.append(member)
            return
        self._blocks[-1].append(member)
        self._tops[-1] = member
        if len(self._blocks[-1]) > 2 * _BLOCK:
            self._split(len(self._blocks) - 1)

    def _split(self, at: int) -> None:
        block = self._blocks[at]
        self._blocks.insert(at + 1, block[_BLOCK:])
        del block[_BLOCK:]
        self._tops.insert(at, block[-1])
