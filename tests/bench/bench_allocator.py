"""How long the allocator takes for one allocation, one release, one pin, and for its construction.

The main workload: a /12 pool is filled with adjacent ranges of 1 to 64 addresses, which are
released at random until 70 % of the addresses are used. Then 10,000 seeded operations keep the use
there. A bitmap that is scanned for each allocation replays the first operations. It shows the
ratio of the times, and whether both place allocations alike.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns
from typing import TypeVar

import click

from allocator import AddressRange, Layout, Space, read_range

T = TypeVar("T")
Step = tuple[bool, AddressRange]
"""An operation: True for an allocation and False for a release, and the range."""
SEED = 7
OPERATIONS = 10_000
SCANNED = 800
"""How many operations the bitmap replays; each takes a while."""


@dataclass
class Timings:
    """The nanoseconds of single calls, by the name of the operation."""

    samples: dict[str, list[int]] = field(default_factory=dict)

    def measure(self, operation: str, call: Callable[[], T]) -> T:
        """Make a call, keep its time, and return its result."""
        start = perf_counter_ns()
        result = call()
        self.samples.setdefault(operation, []).append(perf_counter_ns() - start)
        return result

    def percentile(self, operation: str, percent: int) -> float:
        """Return a percentile in microseconds."""
        ordered = sorted(self.samples[operation])
        return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)] / 1000

    def show(self, title: str) -> None:
        """Print percentiles of each operation."""
        for sample in self.samples:
            p50, p99 = self.percentile(sample, 50), self.percentile(sample, 99)
            count = len(self.samples[sample])
            click.echo(f"{title:46} {sample:9} p50 {p50:9.2f} us  p99 {p99:9.2f} us  (n={count})")


class ScannedBitmap:
    """Butler's way to allocate: one byte per address, searched from the start for each request."""

    def __init__(self, size: int) -> None:
        self._used = bytearray(size)

    def mark(self, first: int, count: int, *, used: bool) -> None:
        """Mark addresses as used or free."""
        self._used[first : first + count] = (b"\1" if used else b"\0") * count

    def find_best_fit(self, count: int) -> int | None:
        """Return the start of the smallest free run that fits; reads the whole bitmap."""
        best, best_size = None, len(self._used) + 1
        start = self._used.find(0)
        while start >= 0:
            end = self._used.find(1, start)
            end = len(self._used) if end < 0 else end
            if count <= end - start < best_size:
                best, best_size = start, end - start
            start = self._used.find(0, end)
        return best


def make_fragmented_ranges(rng: random.Random, pool: AddressRange) -> list[AddressRange]:
    """Return ranges of 1 to 64 addresses that use 70 % of a pool, at random places."""
    ranges: list[AddressRange] = []
    at = pool.first
    while at <= pool.last:
        last = min(at + rng.randint(1, 64) - 1, pool.last)
        ranges.append(AddressRange(at, last, pool.family))
        at = last + 1
    rng.shuffle(ranges)
    used = pool.size
    while used > pool.size * 7 // 10:
        used -= ranges.pop().size
    return ranges


def run_churn(
    space: Space, address_ranges: list[AddressRange], rng: random.Random
) -> tuple[Timings, list[Step]]:
    """Allocate and release at random, with the use unchanged; return times and operations."""
    timings = Timings()
    steps: list[Step] = []
    target = space.used
    for _ in range(OPERATIONS):
        if space.used > target:
            at = rng.randrange(len(address_ranges))
            address_ranges[at], address_ranges[-1] = address_ranges[-1], address_ranges[at]
            address_range = address_ranges.pop()
            timings.measure("release", partial(space.release, address_range))
            steps.append((False, address_range))
            continue
        address_range = timings.measure("allocate", partial(space.allocate, rng.randint(1, 64)))
        address_ranges.append(address_range)
        steps.append((True, address_range))
    return timings, steps


def measure_pins(space: Space, rng: random.Random) -> Timings:
    """Pin the first address of random free blocks, and release it again."""
    timings = Timings()
    for block in rng.sample(list(space.free_extents()), 2_000):
        address_range = AddressRange(block.first, block.first, block.family)
        timings.measure("pin", partial(space.pin, address_range))
        space.release(address_range)
    return timings


def replay_on_bitmap(bitmap: ScannedBitmap, base: int, steps: list[Step]) -> tuple[Timings, bool]:
    """Replay operations on the bitmap; return the times, and whether it places ranges alike."""
    timings = Timings()
    is_same = True
    for allocated, step_range in steps:
        if allocated:
            best_range = timings.measure(
                "allocate", partial(bitmap.find_best_fit, step_range.size)
            )
            is_same = is_same and best_range == step_range.first - base
        bitmap.mark(step_range.first - base, step_range.size, used=allocated)
    return timings, is_same


def measure_main_workload(cidr: str) -> None:
    """Print the times of the main workload, and their ratio to those of a bitmap."""
    rng = random.Random(SEED)
    layout = Layout.parse(cidr)
    base, size = layout.cidr.first, layout.total
    held_ranges = make_fragmented_ranges(rng, layout.cidr)
    space = Space(layout, held_ranges)
    bitmap = ScannedBitmap(size)
    for held_range in held_ranges:
        bitmap.mark(held_range.first - base, held_range.size, used=True)
    runs = sum(1 for _ in space.free_extents())
    title = f"{cidr}, {100 * space.used // size} % used, {runs:,} free runs"
    timings, steps = run_churn(space, held_ranges, rng)
    timings.show(title)
    measure_pins(space, rng).show(title)
    scanned, is_same = replay_on_bitmap(bitmap, base, steps[:SCANNED])
    scanned.show("  the same, scanning a bytearray")
    ratio = scanned.percentile("allocate", 50) / timings.percentile("allocate", 50)
    click.echo(f"  {ratio:,.0f} times the allocator's p50; same placements: {is_same}")


def measure_every_second_address() -> None:
    """Print the times in a /12 with the most free runs: every second address is used."""
    rng = random.Random(SEED)
    layout = Layout.parse("10.0.0.0/12")
    pool = layout.cidr
    address_ranges = [AddressRange(at, at, pool.family) for at in range(pool.first, pool.last, 2)]
    space = Space(layout, address_ranges)
    timings = Timings()
    for held_range in rng.sample(address_ranges, 5_000):
        timings.measure("release", partial(space.release, held_range))
        timings.measure("allocate", partial(space.allocate, rng.randint(1, 3)))
    title = f"/12, {len(address_ranges):,} free runs"
    timings.show(title)
    measure_pins(space, rng).show(title)


def measure_ipv6_64() -> None:
    """Print the times in an IPv6 /64 with 100,000 scattered ranges, whose gaps differ in size."""
    rng = random.Random(SEED)
    layout = Layout.parse("fd00::/64", max_addresses=None)
    base = layout.cidr.first
    starts = sorted(rng.sample(range(0, 1 << 64, 64), 100_000))
    address_ranges = [
        AddressRange(base + at, base + at + rng.randint(1, 64) - 1, layout.family) for at in starts
    ]
    space = Space(layout, address_ranges)
    title = f"IPv6 /64, {len(address_ranges):,} extents"
    run_churn(space, address_ranges, rng)[0].show(title)
    measure_pins(space, rng).show(title)


def measure_ipv6_32_blocks() -> None:
    """Print the times of aligned blocks in an IPv6 /32 with 20,000 blocks of several sizes."""
    rng = random.Random(SEED)
    layout = Layout.parse("fd00::/32", max_addresses=None)
    space = Space(layout, ())
    held_ranges = [space.allocate_block(rng.choice((60, 64, 64, 120))) for _ in range(20_000)]
    timings = Timings()
    for _ in range(OPERATIONS // 2):
        at = rng.randrange(len(held_ranges))
        timings.measure("release", partial(space.release, held_ranges[at]))
        held_ranges[at] = timings.measure(
            "block", partial(space.allocate_block, rng.choice((60, 64)))
        )
    timings.show(f"IPv6 /32, {len(held_ranges):,} aligned blocks")


def measure_construction() -> None:
    """Print how long it takes to parse 25,000 ranges and to build the space from them."""
    rng = random.Random(SEED)
    layout = Layout.parse("10.0.0.0/11", max_addresses=None)
    held_ranges = make_fragmented_ranges(rng, layout.cidr)[:25_000]
    texts = [(held_range.start_text, held_range.end_text) for held_range in held_ranges]
    timings = Timings()
    for _ in range(5):
        read = timings.measure("parse", lambda: [read_range(*ends) for ends in texts])
        parsed_ranges = [held_range for held_range in read if isinstance(held_range, AddressRange)]
        timings.measure("build", partial(Space, layout, parsed_ranges))
    timings.show(f"{len(texts):,} allocations")


def run() -> None:
    """Print all numbers."""
    measure_main_workload("10.0.0.0/12")
    measure_main_workload("fd00::/108")
    measure_every_second_address()
    measure_ipv6_64()
    measure_ipv6_32_blocks()
    measure_construction()
