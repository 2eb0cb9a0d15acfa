"""Random small pools for property tests, the same one as a Space's layout and as a bitmap."""

from dataclasses import dataclass

from hypothesis import strategies as st

from allocator import AddressRange, Family, Layout
from tests.allocator.oracle import Bitmap

BASES: dict[Family, int] = {4: 0x0A280000, 6: 0xFD00 << 112 | 0xFFFF_FF00}
"""Where the pools begin; the IPv6 one crosses a 32-bit border after 256 addresses."""

POOL = 512


@dataclass
class Pool:
    """One pool, drawn twice."""

    layout: Layout
    bitmap: Bitmap

    @property
    def base(self) -> int:
        return self.layout.cidr.first

    def range(self, first: int, last: int) -> AddressRange:
        return AddressRange(first, last, self.layout.family)

    def draw_range(self, data: st.DataObject, longest: int = 40) -> AddressRange:
        """Draw a range that may leave the pool at either end."""
        first = data.draw(st.integers(self.base - 20, self.base + POOL + 20), label="first")
        size = data.draw(st.integers(1, longest), label="size")
        return self.range(first, first + size - 1)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    """Draw a pool of one to four ranges, which may touch, and up to three reserved CIDRs."""
    family: Family = draw(st.sampled_from([4, 6]))
    base = BASES[family]
    count = draw(st.integers(1, 4))
    cuts = draw(
        st.lists(st.integers(0, POOL - 1), min_size=2 * count, max_size=2 * count, unique=True)
    )
    cuts.sort()
    ranges = [(base + cuts[2 * i], base + cuts[2 * i + 1]) for i in range(count)]
    if draw(st.booleans()):  # let neighbours touch
        for i in range(count - 1):
            ranges[i] = (ranges[i][0], ranges[i + 1][0] - 1)
    reserved = []
    for _ in range(draw(st.integers(0, 3))):
        size = 1 << draw(st.integers(0, 6))
        start = base + size * draw(st.integers(0, POOL // size - 1))
        reserved.append((start, start + size - 1))
    layout = Layout(
        AddressRange(base, base + POOL - 1, family),
        tuple(AddressRange(*ends, family) for ends in reserved),
        tuple(AddressRange(*ends, family) for ends in ranges),
    )
    return Pool(layout, Bitmap(ranges, reserved))
