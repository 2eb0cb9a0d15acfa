"""The law on figures: at rest, a pool's status says what the objects say.

The law counts stored objects, and uses no function of the product. An adapter tells which fields
of a status are figures, and which addresses they count. Pools in deletion are not judged: one
whose journal was lost, or is of another history, gets no new figures while its deletion waits.
"""

from collections.abc import Iterator, Mapping

from tests.reconcilers.simulation.adapter import Adapter, Address, Figure, Figures, in_order


def wrong_figures(adapter: Adapter) -> str | None:
    """Return which figure of a pool differs from the objects, None if none does."""
    return next(_differences(adapter), None)


def _differences(adapter: Adapter) -> Iterator[str]:
    taken = adapter.taken()
    for pool in adapter.model.of(adapter.pools):
        name = pool["metadata"]["name"]
        if "deletionTimestamp" in pool["metadata"]:
            continue
        for figures in adapter.figures(pool):
            counted = _counted(adapter, figures, taken)
            for figure, shown in figures.shown.items():
                if shown != counted[figure]:
                    yield (
                        f"{name} has the figure {figure.value} {shown} in its status, but the"
                        f" objects say {counted[figure]}"
                    )


def _counted(
    adapter: Adapter, figures: Figures, taken: frozenset[Address]
) -> Mapping[Figure, int]:
    """Return what the objects say of some addresses of a pool."""
    addresses = figures.addresses
    used = addresses & taken
    requests = [request for plural in figures.holders for request in adapter.model.of(plural)]
    return {
        Figure.TOTAL: len(addresses),
        Figure.USED: len(used),
        Figure.FREE: len(addresses) - len(used),
        Figure.LARGEST: _largest_block(addresses - used),
        Figure.PERCENT: 100 * len(used) // len(addresses),
        Figure.HOLDERS: sum(bool(adapter.addresses(request) & addresses) for request in requests),
    }


def _largest_block(free: frozenset[Address]) -> int:
    """Return the length of the longest run of free addresses."""
    largest = length = 0
    before: int | None = None
    for _, address in in_order(free):
        number = int(address)
        length = length + 1 if before is not None and number == before + 1 else 1
        largest, before = max(largest, length), number
    return largest
