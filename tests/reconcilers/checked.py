"""What is kept of pools' allocations is checked in each pass, as production does now and then."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from controller.cache import Cache
from controller.clock import Clock
from controller.meta import Key
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.networkpool.contents import KeptContents

Differences = list[tuple[Key, list[str]]]


@contextmanager
def always_checked() -> Iterator[Differences]:
    """Check kept contents whenever they are used; give the differences found so far."""
    found: Differences = []
    init = KeptContents.__init__

    def checking(
        self: KeptContents,
        allocations: Cache[IPAllocation],
        ours: str,
        clock: Clock,
        check_interval: float,
        report: Callable[[Key, list[str]], None],
    ) -> None:
        def noting(pool: Key, parts: list[str]) -> None:
            found.append((pool, parts))
            report(pool, parts)

        init(self, allocations, ours, clock, 0.0, noting)

    with patch.object(KeptContents, "__init__", checking):
        yield found
