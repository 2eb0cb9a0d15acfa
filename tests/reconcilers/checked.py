"""Comparison of kept state with rebuilt state in every pass; production compares now and then.

Kept state is what a pool's reconciler keeps from pass to pass instead of reading all holders:
`KeptHoldings`, and `KeptFindings` for KKP.
"""

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
    """Compare kept state with rebuilt state at each use; yield the list of differences.

    A pass of KKP that compares examines all holders. Only every second pass of KKP compares, so
    that tests also cover passes that examine only the holders that changed.
    """
    differences: Differences = []
    passes = count()
    with ExitStack() as patches:
        for kept in (KeptHoldings, KeptFindings):
            checking_init = _make_checking_init(kept.__init__, differences)
            patches.enter_context(patch.object(kept, "__init__", checking_init))
        patches.enter_context(
            patch.object(KeptFindings, "_is_check_due", lambda _self, _kept: next(passes) % 2 == 1)
        )
        yield differences


def _make_checking_init(
    init: Callable[..., None], differences: Differences
) -> Callable[..., None]:
    """Return an `__init__` for a class of kept state that makes each use compare.

    Args:
        init: the original `__init__`.
        differences: receives each difference: the pool, and the parts that differ.
    """

    def checking_init(self: Any, *sources: Any, **options: Any) -> None:
        on_difference = options.get("on_difference", log_differences)

        def note_difference(pool: Hashable, parts: list[str]) -> None:
            differences.append((pool, parts))
            on_difference(pool, parts)

        checked = {"check_interval": 0.0, "on_difference": note_difference}
        init(self, *sources, **options | checked)

    return checking_init
