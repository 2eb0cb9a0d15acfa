"""What can go wrong while choosing addresses, drawn as a tree.

AllocatorError
├── RequestRefused           the pool is sound, this request cannot be served from it
│   ├── PoolExhausted        no free block is long enough: try again after a release
│   ├── PinnedRangeConflict  an address of the pinned range is reserved or held: same
│   ├── OutOfRange           the pinned range lies outside what the pool may hand out: never
│   └── InvalidRequest       the request itself makes no sense, a count of zero say: never
├── MalformedText            a text is no address range
│   ├── InvalidCIDR
│   └── InvalidRange
├── InvalidPool              a pool's cidr, reserved and ranges contradict each other
│   └── PoolTooLarge         they span more addresses than the limit allows
└── NotHeld                  a range was released that has no holder: an error of the caller

Each message begins with the text that Butler's own allocator uses for that fault, because runbooks
search for those texts.
"""

from collections.abc import Sequence


class AllocatorError(Exception):
    """Root of everything this package raises on purpose."""


class RequestRefused(AllocatorError):
    """The pool is sound, but this request cannot be served from it."""


class PoolExhausted(RequestRefused):
    """No free block is long enough.

    Args:
        requested: how many addresses in a row were asked for.
        longest: how many the pool would have in a row if it were empty.
        aligned: whether they have to begin where a CIDR of that size does, and `longest` counts
            such blocks only.
    """

    def __init__(self, requested: int, longest: int, *, aligned: bool = False) -> None:
        block = " as one CIDR" if aligned else ""
        addresses = "address" if requested == 1 else "addresses"
        never = f": it never has {requested} {addresses} in a row{block}, {longest} at the most"
        super().__init__(
            "pool exhausted: no contiguous block available" + never * (requested > longest)
        )
        self.requested = requested


class PinnedRangeConflict(RequestRefused):
    """An address of the pinned range is reserved or held.

    Args:
        address: text of the first such address.
    """

    def __init__(self, address: str) -> None:
        super().__init__(f"pinned range conflicts at IP {address} (reserved or already allocated)")
        self.address = address


class OutOfRange(RequestRefused):
    """The pinned range does not lie inside one of the pool's ranges.

    Args:
        detail: which range, and what it would have to fit into.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(f"range falls outside pool boundaries: {detail}")


class InvalidRequest(RequestRefused):
    """The request makes no sense in any pool."""


class MalformedText(AllocatorError):
    """A text does not say which addresses are meant."""


class InvalidCIDR(MalformedText):
    """A text is no CIDR.

    Args:
        detail: what is wrong with which text.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(f"invalid CIDR notation: {detail}")


class InvalidRange(MalformedText):
    """A start and an end do not make a range.

    Args:
        detail: what is wrong with which text.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(f"invalid IP range: {detail}")


class InvalidPool(AllocatorError):
    """A pool's geometry contradicts itself.

    Args:
        messages: every fault found, one sentence each, in the order of the specification.
    """

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__("; ".join(messages))
        self.messages = tuple(messages)


class PoolTooLarge(InvalidPool):
    """A pool spans more addresses than the limit allows.

    Args:
        span: addresses from the first of the first range to the last of the last.
        limit: the most that is allowed.
    """

    def __init__(self, span: int, limit: int) -> None:
        super().__init__([f"pool too large: {span} IPs (max {limit})"])
        self.span = span
        self.limit = limit


class NotHeld(AllocatorError):
    """A range was released that has no holder.

    Args:
        message: the range as text.
    """

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} is not held: release a range exactly as it was taken, once")
