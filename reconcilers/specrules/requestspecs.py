"""What is wrong in the spec of an IPAllocation: by itself, and for the pool that it names."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from allocator import (
    AddressRange,
    AllocatorError,
    InvalidRequest,
    Layout,
    MalformedText,
    RequestRefused,
)
from controller.errors import Cause
from reconcilers.addressing import familychoice, requestedranges
from reconcilers.api.ipallocation import (
    DISTINCT_FAMILIES,
    ONE_BLOCK,
    ONE_SIZE,
    PINNED_FAMILY,
    PINNED_ONCE,
    POLICY_OF_TWO,
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
    IPAllocation,
    IPAllocationSpec,
)
from reconcilers.api.networkpool import NetworkPool
from reconcilers.specrules.verdict import Path, Remark, Verdict, forbidden, invalid

SPEC: Path = ("spec",)
PINNED: Path = ("spec", "pinnedRange")
PINNED_BOTH: Path = ("spec", "pinnedRanges")


def review_request(new: IPAllocation) -> Verdict:
    """Validate what a request says of itself, whatever pool it names."""
    try:
        requestedranges.parse_first_pin(new)
    except AllocatorError as malformed:
        return Verdict.from_causes([invalid(locate_pins(new), str(malformed))])
    return Verdict.from_causes(_find_contradictions(new.spec))


def _find_contradictions(spec: IPAllocationSpec) -> Iterator[Cause]:
    """Yield the contradictions of a spec that the schema rejects too, in the same words."""
    dual = spec.ipFamilyPolicy in {PREFER_DUAL_STACK, REQUIRE_DUAL_STACK}
    pinned = spec.pinnedRange is not None or bool(spec.pinnedRanges)
    if spec.prefixLength is not None and (spec.count is not None or pinned):
        yield forbidden(("spec", "prefixLength"), ONE_SIZE.message)
    if spec.prefixLength is not None and dual:
        yield forbidden(("spec", "prefixLength"), ONE_BLOCK.message)
    if spec.pinnedRange is not None and spec.pinnedRanges:
        yield forbidden(("spec", "pinnedRanges"), PINNED_ONCE.message)
    if len(set(spec.ipFamilies)) < len(spec.ipFamilies):
        yield invalid(("spec", "ipFamilies", 1), DISTINCT_FAMILIES.message)
    if not dual and max(len(spec.ipFamilies), len(spec.pinnedRanges)) > 1:
        yield invalid(("spec", "ipFamilyPolicy"), POLICY_OF_TWO.message)
    elif not dual and spec.ipFamilies and not _is_pinned_in(spec, spec.ipFamilies[0]):
        yield invalid(("spec", "ipFamilies"), PINNED_FAMILY.message)


def _is_pinned_in(spec: IPAllocationSpec, family: str) -> bool:
    """Return whether every range that a spec pins is of a family."""
    pins = (*spec.pinnedRanges, *([spec.pinnedRange] if spec.pinnedRange is not None else []))
    return all((":" in pin.startAddress) == (family == "IPv6") for pin in pins)


class _Pin(NamedTuple):
    """A range that is asked for, and where."""

    path: Path
    range: AddressRange


def locate_pins(allocation: IPAllocation, number: int | None = None) -> Path:
    """Return where a request pins its ranges.

    Args:
        allocation: the request.
        number: of a range in `requestedranges.parse_pins`; None for all.
    """
    if allocation.spec.pinnedRange is not None or not allocation.spec.pinnedRanges:
        return PINNED
    return PINNED_BOTH if number is None else (*PINNED_BOTH, number)


def find_impossibility(
    allocation: IPAllocation, count: int, pool: NetworkPool, layouts: Sequence[Layout]
) -> Remark | None:
    """Return why a pool could not serve a request even if it were empty; None if it could.

    A family that the pool lacks is no such reason, as the pool may be given it.

    Args:
        allocation: the request.
        count: how many addresses it asks for, where it pins none.
        layouts: its geometry.
    """
    by_family = {layout.family: layout for layout in layouts}
    try:
        pins = {
            pin.family: _Pin(locate_pins(allocation, number), pin)
            for number, pin in enumerate(requestedranges.parse_pins(allocation))
        }
        if len(layouts) == 1 and not allocation.spec.names_families:
            pinned = next(iter(pins.values()), None)
            return _find_family_impossibility(
                allocation, count, pool=pool, layout=layouts[0], pin=pinned
            )
        choice = familychoice.choose_families(allocation, pool, tuple(by_family))
    except InvalidRequest as impossible:
        return Remark(SPEC, str(impossible))
    except MalformedText as impossible:
        return Remark(locate_pins(allocation), str(impossible))
    except RequestRefused:
        return None
    required = choice.families if choice.second_required else choice.families[:1]
    remarks = (
        _find_family_impossibility(
            allocation, count, pool=pool, layout=by_family[family], pin=pins.get(family)
        )
        for family in required
    )
    return next(filter(None, remarks), None)


def _find_family_impossibility(
    allocation: IPAllocation,
    count: int,
    pool: NetworkPool,
    layout: Layout,
    pin: _Pin | None,
) -> Remark | None:
    """Return why one family of a pool could not serve a request even if it were empty."""
    if pin is None:
        return _find_size_impossibility(allocation, count, pool=pool, layout=layout)
    try:
        layout.pinned_span(pin.range)
    except AllocatorError as impossible:
        return Remark(pin.path, str(impossible))
    if layout.could_ever_pin(pin.range):
        return None
    message = f"{pin.range.text} holds reserved addresses of NetworkPool {pool.metadata.key}"
    return Remark(pin.path, message)


def _find_size_impossibility(
    allocation: IPAllocation, count: int, pool: NetworkPool, layout: Layout
) -> Remark | None:
    prefix, largest, noun = allocation.spec.prefixLength, layout.longest, "addresses in a row"
    if prefix is not None:
        try:
            count = layout.block_size(prefix)
        except InvalidRequest as impossible:
            return Remark(("spec", "prefixLength"), str(impossible))
        largest, noun = layout.largest_aligned, f"addresses as one CIDR, a /{prefix}"
    if count <= largest:
        return None
    return Remark(
        ("spec", "count" if prefix is None else "prefixLength"),
        f"asks for {count} {noun}; NetworkPool {pool.metadata.key} has {largest} at most, even"
        " empty",
    )
