"""What objects of an integration hold of a pool, or are promised, as views show it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from allocator import AddressRange, Capacity, Space
from controller.meta import Key, Object
from reconcilers.promises.identities import Find
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.settling import find_promised_version


@dataclass(frozen=True, slots=True)
class HeldPart:
    """Addresses that one object holds.

    Args:
        range: the addresses.
        state: whether they are written to the object, or promised only.
        key: of the object.
    """

    range: AddressRange
    state: Literal["held", "promised"]
    key: Key


def list_open_promises(journal: Journal, find: Find[Object]) -> Iterator[Promise]:
    """Yield the promises that may still be written to their requests.

    At any other version of its request, a promise was kept, or it is void: its ranges are held, or
    free.

    Args:
        find: returns the request of a holder, as it was read.
    """
    for promise in journal.promises:
        if find_promised_version(promise, find(promise.holder)) is not None:
            yield promise


def capacity_with(space: Space, promised: Iterable[AddressRange]) -> Capacity:
    """Return the capacity of a space in which promised ranges count as held."""
    with space.trial():
        for promised_range in promised:
            space.hold(promised_range)
        return space.capacity()
