"""The addresses of a pool that objects of an integration hold or are promised, for views."""

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
        state: "held" if they are written to the object; "promised" if only the journal has them.
        key: the key of the object.
    """

    range: AddressRange
    state: Literal["held", "promised"]
    key: Key


def list_open_promises(journal: Journal, find: Find[Object]) -> Iterator[Promise]:
    """Yield the promises that may still be written to their requests.

    A promise names the version of its request. If the request has another version, the promise was
    kept or is void. Then its ranges are held by the request, or free.

    Args:
        find: returns the request of a holder, as it was read.
    """
    for promise in journal.promises:
        if find_promised_version(promise, find(promise.holder)) is not None:
            yield promise


def compute_capacity_with(space: Space, promised: Iterable[AddressRange]) -> Capacity:
    """Return the capacity of a space in which promised ranges count as held."""
    with space.roll_back_at_exit():
        for promised_range in promised:
            space.hold(promised_range)
        return space.compute_capacity()
