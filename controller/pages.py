"""Pages that an HTTP server serves, and the addresses where it listens; no library is needed.

`controller.httpserver` serves them. It stands apart because a manager that serves nothing, as in a
command that works on files, needs the types, and not aiohttp.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from typing_extensions import override

from controller.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Bind:
    """An address to listen on: a host (empty for all) and a port (0 for any free one)."""

    host: str
    port: int

    def collides(self, other: "Bind") -> bool:
        """Return whether no process can listen on both, by their texts; names are not resolved."""
        if self.port == 0 or self.port != other.port:
            return False
        return self.host == other.host or bool({self.host, other.host} & _ALL_HOSTS)

    @override
    def __str__(self) -> str:
        """Return the address as `parse_bind` reads it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_ALL_HOSTS = {"", "0.0.0.0", "::"}  # noqa: S104 - compared with, not listened on


@dataclass(frozen=True, slots=True)
class PageResponse:
    """The response of a page."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page: the URL's path below the page's own, the query, the header Accept."""

    tail: str
    query: Mapping[str, Sequence[str]]
    accept: str


Page = Callable[[PageRequest], PageResponse]
Guard = Callable[[str, str, str], Awaitable[PageResponse | None]]
"""From method, path and Authorization header to a refusal; None if the page may be shown."""


def parse_bind(address: str, flag: str) -> Bind | None:
    """Parse an address to listen on; return None, which means not to listen, for `0` and "".

    Args:
        address: `:8080`, `127.0.0.1:8080`, `[::1]:8080`; `:0` for any free port.
        flag: the setting's name, for the error.

    Raises:
        ConfigurationError: it is no address.
    """
    if address in ("", "0"):
        return None
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not bracketed):
        raise ConfigurationError(
            f"{flag}: {address!r} cannot be parsed: write HOST:PORT, :PORT, or 0 to not listen"
        )
    return Bind(host.strip("[]"), int(port))


def check_listeners(binds: Mapping[str, Bind | None]) -> None:
    """Refuse settings by which two servers of this process listen on one address.

    Args:
        binds: the addresses by the names of their settings; None listens nowhere.

    Raises:
        ConfigurationError: two of them collide.
    """
    listeners = [(flag, bind) for flag, bind in binds.items() if bind is not None]
    for (flag, bind), (other_flag, other) in combinations(listeners, 2):
        if bind.collides(other):
            raise ConfigurationError(
                f"{flag} {bind} and {other_flag} {other} are one address, and one server can"
                " listen on it: choose another port for one of them"
            )
