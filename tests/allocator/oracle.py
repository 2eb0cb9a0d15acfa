"""The allocator as a textbook bitmap: slow, obvious, and the yardstick for the real one.

One list entry per address from the first range's start to the last range's end, counting how many
hold it; gaps and reservations are blocked for good. Nothing here shares code with the allocator.
"""

from dataclasses import dataclass, field


@dataclass
class Bitmap:
    """A pool as one list entry per address.

    Args:
        ranges: (first, last) of what may be handed out, ascending.
        reserved: (first, last) of what is never handed out.
    """

    ranges: list[tuple[int, int]]
    reserved: list[tuple[int, int]]
    base: int = field(init=False)
    blocked: list[bool] = field(init=False)
    holders: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.base = self.ranges[0][0]
        length = self.ranges[-1][1] - self.base + 1
        self.blocked = [True] * length
        self.holders = [0] * length
        for first, last in self.ranges:
            for address in range(first, last + 1):
                self.blocked[address - self.base] = False
        for first, last in self.reserved:
            for at in self._inside(first, last):
                self.blocked[at] = True

    def _inside(self, first: int, last: int) -> range:
        return range(max(first - self.base, 0), min(last - self.base + 1, len(self.blocked)))

    def free_at(self, at: int) -> bool:
        return not self.blocked[at] and not self.holders[at]

    def blocks(self) -> list[tuple[int, int]]:
        """Return the free blocks as (first address, last address)."""
        free_blocks: list[tuple[int, int]] = []
        start: int | None = None
        for at in range(len(self.blocked) + 1):
            free = at < len(self.blocked) and self.free_at(at)
            if free and start is None:
                start = at
            if not free and start is not None:
                free_blocks.append((self.base + start, self.base + at - 1))
                start = None
        return free_blocks

    def hold(self, first: int, last: int) -> None:
        for at in self._inside(first, last):
            self.holders[at] += 1

    def mark_free(self, first: int, last: int) -> None:
        for at in self._inside(first, last):
            assert self.holders[at] > 0
            self.holders[at] -= 1

    def best_fit(self, count: int) -> tuple[int, int] | None:
        """Return where `count` addresses go: into the smallest block that fits, the first such."""
        best: tuple[int, int] | None = None
        for first, last in self.blocks():
            size = last - first + 1
            if size >= count and (best is None or size < best[1] - best[0] + 1):
                best = (first, last)
        return None if best is None else (best[0], best[0] + count - 1)

    def best_block(self, count: int) -> tuple[int, int] | None:
        """Return where `count` addresses go that begin at a multiple of `count`."""
        best: tuple[int, int, int] | None = None
        for first, last in self.blocks():
            starts = [at for at in range(first, last + 1) if at % count == 0]
            fitting = [at for at in starts if at + count - 1 <= last]
            size = last - first + 1
            if fitting and (best is None or size < best[0]):
                best = (size, fitting[0], fitting[0] + count - 1)
        return None if best is None else best[1:]

    def first_conflict(self, first: int, last: int) -> int | None:
        for address in range(first, last + 1):
            if not self.free_at(address - self.base):
                return address
        return None

    def within_one_range(self, first: int, last: int) -> bool:
        return any(low <= first and last <= high for low, high in self.ranges)

    def total(self) -> int:
        return sum(not blocked for blocked in self.blocked)

    def free(self) -> int:
        return sum(self.free_at(at) for at in range(len(self.blocked)))

    def count_used(self) -> int:
        return sum(
            bool(holders) and not blocked
            for holders, blocked in zip(self.holders, self.blocked, strict=True)
        )

    def largest(self) -> int:
        return max((last - first + 1 for first, last in self.blocks()), default=0)

    def fragmentation(self) -> int:
        blocks = self.blocks()
        if len(blocks) <= 1:
            return 0
        return 100 - self.largest() * 100 // self.free()
