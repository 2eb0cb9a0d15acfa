"""What is held of a pool, part by part, where holders may overlap in any way. Pure functions."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from allocator import AddressRange
from controller.meta import Key
from reconcilers.integrations.core.views import Stretch


@dataclass(frozen=True, slots=True)
class HeldPart:
    """Addresses that one object holds.

    Args:
        range: the addresses.
        state: held or promised.
        holder: the object, as `Kind namespace/name`.
        key: of the object.
    """

    range: AddressRange
    state: str
    holder: str
    key: Key


def stretches(
    held: Iterable[HeldPart],
    free: Iterable[AddressRange],
    hands_out: Callable[[AddressRange], bool],
) -> list[Stretch]:
    """Return what is held and what is free, ascending.

    Args:
        held: what objects hold.
        free: what is free.
        hands_out: returns whether all of these addresses may be handed out.
    """
    found = list(_of_holders(held, hands_out))
    found += [Stretch(one, "free") for one in free]
    return sorted(found, key=lambda one: (one.range.family, one.range.first, one.range.last))


def _of_holders(
    held: Iterable[HeldPart], hands_out: Callable[[AddressRange], bool]
) -> Iterator[Stretch]:
    """Yield the parts of what is held, cut wherever a holder begins or ends."""
    begins: dict[tuple[int, int], list[HeldPart]] = {}
    ends: dict[tuple[int, int], list[HeldPart]] = {}
    for one in held:
        begins.setdefault((one.range.family, one.range.first), []).append(one)
        ends.setdefault((one.range.family, one.range.last + 1), []).append(one)
    points = sorted({*begins, *ends})
    active: list[HeldPart] = []
    for point, following in pairwise(points):
        active = [one for one in active if one not in ends.get(point, ())]
        active += begins.get(point, [])
        if active:
            part = AddressRange(point[1], following[1] - 1, active[0].range.family)
            holders = tuple(dict.fromkeys(sorted(one.holder for one in active)))
            state = "shared" if len(holders) > 1 else active[0].state
            if len(holders) == 1 and not hands_out(part):
                state = "outside"
            yield Stretch(part, state, holders)
