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
from reconcilers.specrules.verdict import (
    Path,
    Remark,
    Verdict,
    build_forbidden_cause,
    build_invalid_cause,
)

SPEC: Path = ("spec",)
PINNED: Path = ("spec", "pinnedRange")
PINNED_RANGES: Path = ("spec", "pinnedRanges")


def review_request(new: IPAllocation) -> Verdict:
    """Return the verdict on the spec of a request by itself, whatever pool it names.

    If a pinned range cannot be parsed, that is the only cause. Else each contradiction between
    fields is a cause.
    """
    try:
        requestedranges.parse_pins(new)
    except AllocatorError as malformed:
        return Verdict.from_causes([build_invalid_cause(locate_pin_field(new), str(malformed))])
    return Verdict.from_causes(_find_contradictions(new.spec))


def _find_contradictions(spec: IPAllocationSpec) -> Iterator[Cause]:
    """Yield the contradictions of a spec that the schema rejects too, in the same words."""
    dual = spec.ipFamilyPolicy in {PREFER_DUAL_STACK, REQUIRE_DUAL_STACK}
    if spec.prefixLength is not None and (spec.count is not None or spec.is_pinned):
        yield build_forbidden_cause(("spec", "prefixLength"), ONE_SIZE.message)
    if spec.prefixLength is not None and dual:
        yield build_forbidden_cause(("spec", "prefixLength"), ONE_BLOCK.message)
    if spec.pinnedRange is not None and spec.pinnedRanges:
        yield build_forbidden_cause(("spec", "pinnedRanges"), PINNED_ONCE.message)
    if len(set(spec.ipFamilies)) < len(spec.ipFamilies):
        # The schema allows two families, so the second one is the repetition.
        yield build_invalid_cause(("spec", "ipFamilies", 1), DISTINCT_FAMILIES.message)
    if not dual and max(len(spec.ipFamilies), len(spec.pinnedRanges)) > 1:
        yield build_invalid_cause(("spec", "ipFamilyPolicy"), POLICY_OF_TWO.message)
    elif not dual and spec.ipFamilies and not _is_pinned_in(spec, spec.ipFamilies[0]):
        yield build_invalid_cause(("spec", "ipFamilies"), PINNED_FAMILY.message)


def _is_pinned_in(spec: IPAllocationSpec, family: str) -> bool:
    """Return whether all pinned ranges of a spec are of a family; True if it pins none."""
    return all((":" in pin.startAddress) == (family == "IPv6") for pin in spec.pins)


class _Pin(NamedTuple):
    """A pinned range, and the field that pins it."""

    path: Path
    range: AddressRange


def locate_pin_field(allocation: IPAllocation, index: int | None = None) -> Path:
    """Return the field that pins the ranges of a request: `pinnedRange` or `pinnedRanges`.

    If the request pins no range, return `pinnedRange`.

    Args:
        allocation: the request.
        index: the position of a range in `pinnedRanges`; None for the whole field. It has no
            effect on `pinnedRange`, which has only one range.
    """
    if allocation.spec.pinnedRange is not None or not allocation.spec.pinnedRanges:
        return PINNED
    return PINNED_RANGES if index is None else (*PINNED_RANGES, index)


def find_impossibility(
    allocation: IPAllocation, count: int, pool: NetworkPool, layouts: Sequence[Layout]
) -> Remark | None:
    """Return why a pool could not serve a request even if it were empty; None if it could.

    None, too, if the pool lacks a family, because a second family can be added to a pool.

    Args:
        allocation: the request.
        count: how many addresses it asks for in each family in which it pins no range.
        layouts: the parsed blocks of the pool, one of each family.
    """
    by_family = {layout.family: layout for layout in layouts}
    try:
        pins = {
            pin.family: _Pin(locate_pin_field(allocation, index), pin)
            for index, pin in enumerate(requestedranges.parse_pins(allocation))
        }
        if len(layouts) == 1 and not allocation.spec.names_families:
            # The request takes the one family of the pool. A pin of the other family can never
            # be served then, and `choose_families` would say only that the pool lacks it.
            pinned = next(iter(pins.values()), None)
            return _find_family_impossibility(
                allocation, count, pool=pool, layout=layouts[0], pin=pinned
            )
        choice = familychoice.choose_families(allocation, pool, tuple(by_family))
    except InvalidRequest as impossible:
        return Remark(SPEC, str(impossible))
    except MalformedText as impossible:
        return Remark(locate_pin_field(allocation), str(impossible))
    except RequestRefused:
        return None  # the pool lacks a family of the request
    # A request with a preferred second family can be served without it: only the first counts.
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
    """Return why one family of a pool could not serve a request even if it were empty.

    None if it could. A pinned range has to lie in the ranges of the pool and hold no reserved
    address; without a pinned range, the number of addresses has to fit.
    """
    if pin is None:
        return _find_size_impossibility(allocation, count, pool=pool, layout=layout)
    try:
        layout.get_pinned_span(pin.range)  # raises if the range is not in the pool's ranges
    except AllocatorError as impossible:
        return Remark(pin.path, str(impossible))
    if layout.can_ever_pin(pin.range):
        return None
    message = f"{pin.range.text} holds reserved addresses of NetworkPool {pool.metadata.key}"
    return Remark(pin.path, message)


def _find_size_impossibility(
    allocation: IPAllocation, count: int, pool: NetworkPool, layout: Layout
) -> Remark | None:
    """Return why one family of a pool is too small for a request, even if the pool is empty.

    None if it is large enough. A request with a prefix length needs a CIDR: an aligned block.
    """
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
