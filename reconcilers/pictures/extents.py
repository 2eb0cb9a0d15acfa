"""The addresses of a pool as one ordered list: what is held, by whom, and the gaps between.

An *extent* is a run of addresses in one state with the same holders. It does not cross an end of
the CIDR. Held addresses outside the CIDR are listed too.

Each usable, reserved or held range is a *layer*. The ends of all layers cut the addresses into
pieces, each covered by the same layers from its first to its last address. A sweep visits the
pieces in order, and joins neighbours that show the same.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from allocator import AddressRange
from controller.meta import Key
from reconcilers.api.resources import IP_ALLOCATION


class AddressState(Enum):
    """The state of an address in its pool. The first that applies is shown."""

    OVERLAP = "overlap"
    """Several objects hold it."""
    STRAY = "stray"
    """Held, though the pool may not hand it out."""
    RELEASING = "releasing"
    """Held, and being given back."""
    ALLOCATED = "allocated"
    """Held by one object."""
    PROMISED = "promised"
    """Chosen for an object, and not yet written to it."""
    RESERVED = "reserved"
    """Never handed out: the spec says so."""
    UNKNOWN = "unknown"
    """Not held by the objects that were read; others may hold it."""
    FREE = "free"
    """Can be handed out now."""
    OUTSIDE = "outside"
    """In the CIDR, and in none of the ranges that the pool hands out."""


BY_TENANT = frozenset({AddressState.ALLOCATED, AddressState.RELEASING, AddressState.PROMISED})
"""The states that pictures show in the colour of the tenant."""


@dataclass(frozen=True, slots=True)
class AddressHolder:
    """An object that holds addresses of a pool.

    Args:
        kind: of the object; with its group if the kind alone is ambiguous.
        key: its namespace and name.
        tenant: the consumer of the addresses, as people read it: a cluster or a machine.
        purpose: the use of the addresses: `nodes`, `loadbalancer`, `claim`, `cluster`, …
        promised: whether the addresses are not written to the object yet.
        releasing: whether they are being given back.
        phase: of the object; empty if its kind has no phases.
        since: when it got the addresses; the time of its creation if that is not known.
    """

    kind: str
    key: Key
    tenant: str
    purpose: str
    promised: bool = False
    releasing: bool = False
    phase: str = ""
    since: datetime | None = None

    @property
    def text(self) -> str:
        """The object as `Kind namespace/name`; an IPAllocation of ours has no kind before it."""
        return format_object(self.kind, self.key)


def format_object(kind: str, key: Key, namespace: str = "") -> str:
    """Return a holder or a request as lists show it.

    Args:
        kind: of the object; it is left out for an IPAllocation of ours.
        key: its namespace and name.
        namespace: the namespace that is left out; empty to show all.
    """
    name = key.name if namespace and key.namespace == namespace else str(key)
    return name if kind == IP_ALLOCATION.kind else f"{kind} {name}"


class HeldAddresses(NamedTuple):
    """Addresses in a row that one object holds."""

    holder: AddressHolder
    range: AddressRange


class Reserved(NamedTuple):
    """Addresses that a pool never hands out, and why; the reason may be empty."""

    range: AddressRange
    note: str


@dataclass(frozen=True, slots=True)
class Extent:
    """Addresses in a row that are in one state.

    Args:
        range: the addresses.
        state: their state.
        holders: the objects that hold them; several if they overlap.
        note: the description of a reserved range.
    """

    range: AddressRange
    state: AddressState
    holders: tuple[AddressHolder, ...] = ()
    note: str = ""

    @property
    def tenant_text(self) -> str:
        """The tenant that holds it; empty if there is none, or several."""
        tenants = {holder.tenant for holder in self.holders}
        return tenants.pop() if len(tenants) == 1 else ""


class _Layer(NamedTuple):
    """A range from `first` to `last`, and its meaning.

    The content is the holder of the range, or its reservation; None for a usable range.
    """

    first: int
    last: int
    content: AddressHolder | Reserved | None


def list_extents(
    cidr: AddressRange,
    usable: Iterable[AddressRange],
    reserved: Iterable[Reserved],
    held_addresses: Collection[HeldAddresses],
    *,
    all_known: bool = True,
) -> tuple[Extent, ...]:
    """Return the extents of a pool, ascending, without gaps inside its CIDR.

    Args:
        cidr: the addresses that are shown at least.
        usable: the addresses that the pool may hand out.
        reserved: the addresses that it never hands out, with reasons.
        held_addresses: what objects hold, in any order; ranges of the other family come last.
        all_known: whether these are all holders; else no address is known to be free.
    """
    layers = [_Layer(part.first, part.last, None) for part in usable]
    layers += [_Layer(entry.range.first, entry.range.last, entry) for entry in reserved]
    layers += _list_layers(held_addresses, cidr.family)
    extents = list(_sweep(layers, cidr))
    if not all_known:
        extents = [
            replace(extent, state=AddressState.UNKNOWN)
            if extent.state is AddressState.FREE
            else extent
            for extent in extents
        ]
    for family in {entry.range.family for entry in held_addresses} - {cidr.family}:
        # The pool has no CIDR of this family. Address 0 stands in for it, and the extent of that
        # address, which has no holder, is dropped below.
        placeholder = AddressRange(0, 0, family)
        others = _sweep(_list_layers(held_addresses, family), placeholder)
        extents += [extent for extent in others if extent.holders]
    return tuple(extents)


def _list_layers(held_addresses: Iterable[HeldAddresses], family: int) -> list[_Layer]:
    """Return a layer for each range of one family that an object holds."""
    return [
        _Layer(entry.range.first, entry.range.last, entry.holder)
        for entry in held_addresses
        if entry.range.family == family
    ]


def _sweep(layers: Iterable[_Layer], cidr: AddressRange) -> Iterator[Extent]:
    """Yield the extents, ascending, between the ends of all layers and of the CIDR.

    Neighbours that show the same are joined. Outside the CIDR, only addresses that a layer covers
    are yielded.
    """
    starts: dict[int, list[_Layer]] = {}
    ends: dict[int, list[_Layer]] = {}
    cuts = {cidr.first, cidr.last + 1}
    for layer in layers:
        starts.setdefault(layer.first, []).append(layer)
        ends.setdefault(layer.last + 1, []).append(layer)
        cuts |= {layer.first, layer.last + 1}
    # By identity, because several equal layers may cover the same addresses.
    active: dict[int, _Layer] = {}
    pending: Extent | None = None
    for first, beyond in pairwise(sorted(cuts)):
        for layer in ends.get(first, ()):
            del active[id(layer)]
        for layer in starts.get(first, ()):
            active[id(layer)] = layer
        if not active and not cidr.first <= first <= cidr.last:
            continue  # a gap outside the CIDR
        extent = _make_extent(AddressRange(first, beyond - 1, cidr.family), active.values())
        # Extents are not joined across an end of the CIDR.
        is_cidr_edge = first in {cidr.first, cidr.last + 1}
        if pending is not None and not is_cidr_edge and _can_join(pending, extent):
            joined_range = AddressRange(pending.range.first, extent.range.last, cidr.family)
            pending = replace(pending, range=joined_range)
            continue
        if pending is not None:
            yield pending
        pending = extent
    if pending is not None:
        yield pending


def _make_extent(addresses: AddressRange, layers: Collection[_Layer]) -> Extent:
    """Return the extent of a range: its state follows from the layers that cover all of it.

    An object with several layers counts as one holder.
    """
    by_object = {
        (layer.content.key, layer.content.kind): layer.content
        for layer in layers
        if isinstance(layer.content, AddressHolder)
    }
    holders = tuple(by_object[name] for name in sorted(by_object))
    notes = [layer.content.note for layer in layers if isinstance(layer.content, Reserved)]
    is_usable = any(layer.content is None for layer in layers)
    if len(holders) > 1:
        state = AddressState.OVERLAP
    elif holders and not is_usable:
        state = AddressState.STRAY
    elif holders and holders[0].releasing:
        state = AddressState.RELEASING
    elif holders:
        state = AddressState.PROMISED if holders[0].promised else AddressState.ALLOCATED
    elif is_usable:
        state = AddressState.FREE
    else:
        state = AddressState.RESERVED if notes else AddressState.OUTSIDE
    return Extent(addresses, state, holders=holders, note="; ".join(filter(None, notes)))


def _can_join(before: Extent, after: Extent) -> bool:
    """Return whether two extents can be joined: neighbours with equal state, holders and note."""
    same = (before.state, before.holders, before.note) == (after.state, after.holders, after.note)
    return same and before.range.last + 1 == after.range.first
