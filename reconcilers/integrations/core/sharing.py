"""Whether two pools hand out some of the same addresses."""

from collections.abc import Sequence

from allocator import AddressRange


def share_any(mine: Sequence[AddressRange], theirs: Sequence[AddressRange]) -> bool:
    """Return whether two lists of ranges, each ascending and of one family, have one in common."""
    at = 0
    for part in mine:
        while at < len(theirs) and theirs[at].last < part.first:
            at += 1
        if at < len(theirs) and theirs[at].overlaps(part):
            return True
    return False
