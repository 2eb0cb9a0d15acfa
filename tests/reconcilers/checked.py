"""What is kept of pools' holders is checked in each pass, as production does now and then."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from reconcilers.promises.holdings import KeptHoldings, log_differences

Differences = list[tuple[Hashable, list[str]]]


@contextmanager
def always_checked() -> Iterator[Differences]:
    """Check kept holdings whenever they are used; give the differences found so far."""
    differences: Differences = []
    init = KeptHoldings.__init__

    def checking(self: Any, *sources: Any, **options: Any) -> None:
        report = options.get("report", log_differences)

        def noting(pool: Hashable, parts: list[str]) -> None:
            differences.append((pool, parts))
            report(pool, parts)

        init(self, *sources, **options | {"check_interval": 0.0, "report": noting})

    with patch.object(KeptHoldings, "__init__", checking):
        yield differences
