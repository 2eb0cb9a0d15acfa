"""The law on figures: at rest, a pool's status says what the objects say.

The law counts stored objects, and uses no function of the product. An adapter tells which fields
of a status are figures, and which addresses they count. Pools in deletion are not judged: one
whose journal was lost, or is of another history, gets no new figures while its deletion waits.
"""

from collections.abc import Iterator, Mapping

from tests.reconcilers.simulation.adapter import Adapter, Address, Figure, Figures, sort_addresses


def find_wrong_figure(adapter: Adapter) -> str | None:
    """Return the first figure of a pool that differs from the objects, None if none does."""
    return next(_find_differences(adapter), None)


def _find_differences(adapter: Adapter) -> Iterator[str]:
    """Yield a sentence for each figure that differs from the count of the objects."""
    taken_addresses = adapter.list_taken()
    for pool in adapter.model.list_objects(adapter.pools):
        name = pool["metadata"]["name"]
        if "deletionTimestamp" in pool["metadata"]:
            continue
        for figures in adapter.read_figures(pool):
            counted = _count_addresses(adapter, figures, taken_addresses)
            for figure, shown_count in figures.counts.items():
                if shown_count != counted[figure]:
                    yield (
                        f"{name} has the figure {figure.value} {shown_count} in its status, but"
                        f" the"
                        f" objects say {counted[figure]}"
                    )


def _count_addresses(
    adapter: Adapter, figures: Figures, taken_addresses: frozenset[Address]
) -> Mapping[Figure, int]:
    """Return the figures of some addresses of a pool, counted by its objects."""
    addresses = figures.addresses
    used = addresses & taken_addresses
    requests = [
        request for plural in figures.holders for request in adapter.model.list_objects(plural)
    ]
    return {
        Figure.TOTAL: len(addresses),
        Figure.USED: len(used),
        Figure.FREE: len(addresses) - len(used),
        Figure.LARGEST: _largest_block(addresses - used),
        Figure.PERCENT: 100 * len(used) // len(addresses),
        Figure.HOLDERS: sum(bool(adapter.list_shown(request) & addresses) for request in requests),
    }


def _largest_block(free: frozenset[Address]) -> int:
    """Return the length of the longest run of free addresses."""
    largest = length = 0
    before: int | None = None
    for _, address in sort_addresses(free):
        number = int(address)
        length = length + 1 if before is not None and number == before + 1 else 1
        largest, before = max(largest, length), number
    return largest
