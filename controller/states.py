"""Where the loop that keeps a cache equal to the server can be, and what it asks from there."""

from dataclasses import dataclass

from controller.pages import PAGE_SIZE


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing is known yet."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """Asking for everything, as the beginning of a watch.

    Args:
        revision: a number for a state not older than that; empty for the newest.
    """

    revision: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Asking for everything.

    Args:
        revision: `0` for whatever the server has at hand; a number for a state not older than
            that; empty for the newest.
    """

    revision: str


@dataclass(frozen=True, slots=True)
class Watching:
    """Following the changes from the cache's position on."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The server's history no longer contains, or never contained, the cache's position."""


State = Empty | Streaming | Listing | Watching | Expired


def list_query(revision: str) -> dict[str, str]:
    """Return the parameters of a list; parts only where the server would not use its cache."""
    return {"resourceVersion": revision} if revision else {"limit": str(PAGE_SIZE)}


def stream_query(revision: str) -> dict[str, str]:
    """Return the parameters of a watch that begins with a list not older than `revision`."""
    return {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "resourceVersion": revision,
    }
