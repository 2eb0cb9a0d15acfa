"""The exceptions of the allocator, as a tree.

AllocatorError
├── RequestRefused           the pool is valid, but it cannot serve this request
│   ├── PoolExhausted        no free block is long enough; a release may change that
│   ├── PinnedRangeConflict  an address of the pinned range is reserved or held; the same
│   ├── OutOfRange           the pinned range is outside of the pool's ranges; permanent
│   └── InvalidRequest       the request is invalid, such as a count of zero; permanent
├── MalformedText            a text is no address range
│   ├── InvalidCIDR
│   └── InvalidRange
├── InvalidPool              a pool's cidr, reserved and ranges contradict each other
│   └── PoolTooLarge         they span more addresses than the limit allows
└── NotHeld                  a range was released that has no holder: a defect of the caller

Each message begins with the text that Butler's own allocator uses for that error, because runbooks
search for those texts.
"""

from collections.abc import Sequence


class AllocatorError(Exception):
    """The base class of all exceptions of this package."""


class RequestRefused(AllocatorError):
    """The pool is valid, but it cannot serve this request."""


class PoolExhausted(RequestRefused):
    """No free block is long enough.

    Args:
        requested: the number of consecutive addresses that were requested.
        longest: the number of consecutive addresses in the longest block of the empty pool.
        aligned: whether the addresses have to be one CIDR; `longest` is then the largest CIDR.
    """

    def __init__(self, requested: int, longest: int, *, aligned: bool = False) -> None:
        block = " as one CIDR" if aligned else ""
        addresses = "address" if requested == 1 else "addresses"
        message = "pool exhausted: no contiguous block available"
        if requested > longest:  # not even the empty pool has enough
            message += (
                f": it never has {requested} {addresses} in a row{block}, {longest} at the most"
            )
        super().__init__(message)
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
    """The request is invalid in every pool."""


class MalformedText(AllocatorError):
    """A text cannot be parsed as addresses."""


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
