"""Random small pools for property tests, each as a Layout and as a bitmap."""

from dataclasses import dataclass

from hypothesis import strategies as st

from allocator import AddressRange, Family, Layout
from tests.allocator.oracle import Bitmap

BASES: dict[Family, int] = {4: 0x0A280000, 6: 0xFD00 << 112 | 0xFFFF_FF00}
"""The first addresses of pools; an IPv6 pool crosses a multiple of 2^32 after 256 addresses."""

POOL_SIZE = 512
"""The number of addresses in the CIDR of a pool."""


@dataclass
class DrawnPool:
    """A random pool: as a layout of the allocator, and as the oracle's bitmap."""

    layout: Layout
    bitmap: Bitmap

    @property
    def base(self) -> int:
        """The first address of the CIDR."""
        return self.layout.cidr.first

    def make_range(self, first: int, last: int) -> AddressRange:
        """Return a range of the pool's family."""
        return AddressRange(first, last, self.layout.family)

    def draw_range(self, data: st.DataObject, longest: int = 40) -> AddressRange:
        """Draw a range of at most `longest` addresses, which may exceed the pool at either end."""
        first = data.draw(st.integers(self.base - 20, self.base + POOL_SIZE + 20), label="first")
        size = data.draw(st.integers(1, longest), label="size")
        return self.make_range(first, first + size - 1)


@st.composite
def draw_pools(draw: st.DrawFn) -> DrawnPool:
    """Draw a pool of one to four ranges, which may touch, and up to three reserved CIDRs."""
    family: Family = draw(st.sampled_from([4, 6]))
    base = BASES[family]
    count = draw(st.integers(1, 4))
    cuts = draw(
        st.lists(
            st.integers(0, POOL_SIZE - 1), min_size=2 * count, max_size=2 * count, unique=True
        )
    )
    cuts.sort()
    ranges = [(base + cuts[2 * i], base + cuts[2 * i + 1]) for i in range(count)]
    if draw(st.booleans()):  # each range ends where the next one begins
        for i in range(count - 1):
            ranges[i] = (ranges[i][0], ranges[i + 1][0] - 1)
    reserved = []
    for _ in range(draw(st.integers(0, 3))):
        size = 1 << draw(st.integers(0, 6))
        start = base + size * draw(st.integers(0, POOL_SIZE // size - 1))
        reserved.append((start, start + size - 1))
    layout = Layout(
        AddressRange(base, base + POOL_SIZE - 1, family),
        tuple(AddressRange(*ends, family) for ends in reserved),
        tuple(AddressRange(*ends, family) for ends in ranges),
    )
    return DrawnPool(layout, Bitmap(ranges, reserved))
