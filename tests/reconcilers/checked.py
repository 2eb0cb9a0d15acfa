"""What is kept of pools' holders is checked in each pass, as production does now and then."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

from reconcilers.integrations.kubermatic.findings import KeptFindings
from reconcilers.promises.holdings import KeptHoldings, log_differences

Differences = list[tuple[Hashable, list[str]]]


@contextmanager
def always_checked() -> Iterator[Differences]:
    """Check what is kept of pools whenever it is used; give the differences found so far.

    A pass of KKP that checks examines all holders, and every other one does: so what the passes
    between examine is checked, too.
    """
    differences: Differences = []
    passes = count()
    with ExitStack() as patches:
        for kept in (KeptHoldings, KeptFindings):
            checking = _checking(kept.__init__, differences)
            patches.enter_context(patch.object(kept, "__init__", checking))
        patches.enter_context(
            patch.object(KeptFindings, "_is_check_due", lambda _self, _kept: next(passes) % 2 == 1)
        )
        yield differences


def _checking(init: Callable[..., None], differences: Differences) -> Callable[..., None]:
    """Return the initialiser of what is kept, with a check at each use."""

    def checking(self: Any, *sources: Any, **options: Any) -> None:
        on_difference = options.get("on_difference", log_differences)

        def noting(pool: Hashable, parts: list[str]) -> None:
            differences.append((pool, parts))
            on_difference(pool, parts)

        init(self, *sources, **options | {"check_interval": 0.0, "on_difference": noting})

    return checking
