"""How a range was chosen, in words: recorded in the promise, and reported by the IPAllocation.

The words are part of the promise, so whichever replica keeps it reports the same. A pool whose
schema lacks the field stores the promise without them, and the IPAllocation then reports less.
"""

from collections.abc import Iterator, Sequence

from allocator import AddressRange, Space
from reconcilers.addressing import familychoice, requestedranges, statusranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.reporting.wording import count_addresses, count_noun


def describe_choice(
    allocation: IPAllocation, chosen: Sequence[AddressRange], spaces: Sequence[Space]
) -> str:
    """Return how the ranges were chosen that were taken from `spaces` just now.

    A range that the allocation held before was not chosen now, and is left out.
    """
    parts = list(_describe_parts(allocation, chosen, spaces))
    if len(chosen) == 1:  # the family of the only range need not be named
        return "".join(words for _, words in parts)
    return ", ".join(
        f"{familychoice.FAMILY_NAMES[chosen_range.family]} {words}"
        for chosen_range, words in parts
    )


def _describe_parts(
    allocation: IPAllocation, chosen: Sequence[AddressRange], spaces: Sequence[Space]
) -> Iterator[tuple[AddressRange, str]]:
    """Yield each range that was chosen now, with words that tell how."""
    by_family = {space.layout.family: space for space in spaces}
    held_ranges = statusranges.list_held_ranges(allocation)
    for chosen_range in chosen:
        if chosen_range in held_ranges:
            continue
        if chosen_range in requestedranges.parse_pins(allocation):
            yield chosen_range, "as pinned"
        else:
            space = by_family[chosen_range.family]
            yield chosen_range, _describe_origin(allocation, chosen_range, space)


def _describe_origin(allocation: IPAllocation, chosen_range: AddressRange, space: Space) -> str:
    """Return words for the free block that a range was taken out of.

    Args:
        space: from which it was taken just now.
    """
    origin = space.find_origin(chosen_range)
    addresses = count_addresses(origin.block)
    prefix = allocation.spec.prefixLength
    if prefix is not None:  # a request for an aligned block fits in fewer free blocks
        return f"out of the smallest free block that has a /{prefix} ({addresses})"
    blocks = count_noun(origin.fitting, "block")
    return f"out of the smallest free block that fits ({addresses}; {blocks} fitted)"


def describe_allocated(pool: NetworkPool, ranges: Sequence[AddressRange], choice: str) -> str:
    """Return the Ready message of an allocation that was given ranges.

    Args:
        pool: that allocated them.
        ranges: one range, or one of each family, in order.
        choice: how they were chosen; empty if that is not known.
    """
    suffix = " each" if len(ranges) > 1 else ""
    texts = " and ".join(span.text for span in ranges)
    message = (
        f"allocated {count_noun(ranges[0].size, 'IP')}{suffix}: {texts} from {pool.metadata.name}"
    )
    return f"{message}, {choice}" if choice else message
