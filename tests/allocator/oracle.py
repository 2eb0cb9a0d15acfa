"""The allocator as a bitmap: slow and obvious, the oracle for tests of the real allocator.

The bitmap has an entry for each address from the first range's start to the last range's end. The
entry counts the holders of the address. Gaps and reservations are blocked. This module shares no
code with the allocator.
"""

from dataclasses import dataclass, field


@dataclass
class Bitmap:
    """A pool as one list entry per address.

    Args:
        ranges: (first, last) of each range that may be allocated, ascending.
        reserved: (first, last) of each range that is never allocated.
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
            for offset in self._clip_to_offsets(first, last):
                self.blocked[offset] = True

    def _clip_to_offsets(self, first: int, last: int) -> range:
        """Return the offsets of the addresses of a range that are in the bitmap."""
        return range(max(first - self.base, 0), min(last - self.base + 1, len(self.blocked)))

    def is_free(self, offset: int) -> bool:
        """Return whether the address at an offset is neither blocked nor held."""
        return not self.blocked[offset] and not self.holders[offset]

    def list_free_blocks(self) -> list[tuple[int, int]]:
        """Return the free blocks as (first address, last address)."""
        free_blocks: list[tuple[int, int]] = []
        start: int | None = None
        for offset in range(len(self.blocked) + 1):
            count_free = offset < len(self.blocked) and self.is_free(offset)
            if count_free and start is None:
                start = offset
            if not count_free and start is not None:
                free_blocks.append((self.base + start, self.base + offset - 1))
                start = None
        return free_blocks

    def hold(self, first: int, last: int) -> None:
        """Add a holder to each address of a range."""
        for offset in self._clip_to_offsets(first, last):
            self.holders[offset] += 1

    def release(self, first: int, last: int) -> None:
        """Remove a holder from each address of a range."""
        for offset in self._clip_to_offsets(first, last):
            assert self.holders[offset] > 0
            self.holders[offset] -= 1

    def find_best_fit(self, count: int) -> tuple[int, int] | None:
        """Return the lowest `count` addresses of the smallest free block that has so many.

        Of several smallest blocks the lowest is used. None means that no block is large enough.
        """
        best: tuple[int, int] | None = None
        for first, last in self.list_free_blocks():
            size = last - first + 1
            if size >= count and (best is None or size < best[1] - best[0] + 1):
                best = (first, last)
        return None if best is None else (best[0], best[0] + count - 1)

    def find_best_aligned_block(self, count: int) -> tuple[int, int] | None:
        """Return `count` addresses from a multiple of `count` on, in the smallest block with them.

        None means that no free block has them.
        """
        best: tuple[int, int, int] | None = None
        for first, last in self.list_free_blocks():
            starts = [offset for offset in range(first, last + 1) if offset % count == 0]
            fitting = [offset for offset in starts if offset + count - 1 <= last]
            size = last - first + 1
            if fitting and (best is None or size < best[0]):
                best = (size, fitting[0], fitting[0] + count - 1)
        return None if best is None else best[1:]

    def find_first_conflict(self, first: int, last: int) -> int | None:
        """Return the lowest address of a range that is not free; None if all are free."""
        for address in range(first, last + 1):
            if not self.is_free(address - self.base):
                return address
        return None

    def is_within_one_range(self, first: int, last: int) -> bool:
        """Return whether one of the pool's ranges has all addresses of a range."""
        return any(low <= first and last <= high for low, high in self.ranges)

    def count_total(self) -> int:
        """Return the number of addresses that may be allocated."""
        return sum(not blocked for blocked in self.blocked)

    def count_free(self) -> int:
        """Return the number of free addresses."""
        return sum(self.is_free(offset) for offset in range(len(self.blocked)))

    def count_used(self) -> int:
        """Return the number of held addresses that may be allocated."""
        return sum(
            bool(holders) and not blocked
            for holders, blocked in zip(self.holders, self.blocked, strict=True)
        )

    def compute_largest_block(self) -> int:
        """Return the size of the largest free block; 0 without one."""
        return max((last - first + 1 for first, last in self.list_free_blocks()), default=0)

    def compute_fragmentation(self) -> int:
        """Return the percentage of free addresses that are not in the largest free block."""
        blocks = self.list_free_blocks()
        if len(blocks) <= 1:
            return 0
        return 100 - self.compute_largest_block() * 100 // self.count_free()
