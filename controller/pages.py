"""Types for pages of an HTTP server, and for the addresses where it listens.

`controller.httpserver` serves the pages. It is another module because a manager that serves
nothing, in a command that works on files for example, needs these types and not aiohttp.
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

    def collides_with(self, other: "Bind") -> bool:
        """Return whether both are one address, so that a process cannot listen on both.

        The hosts are compared as texts; names are not resolved.
        """
        if self.port == 0 or self.port != other.port:
            return False  # port 0 means any free port
        # A server on all hosts takes the port on each of them.
        return self.host == other.host or bool({self.host, other.host} & _ALL_HOSTS)

    @override
    def __str__(self) -> str:
        """Return the address as `parse_bind` reads it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_ALL_HOSTS = {"", "0.0.0.0", "::"}  # noqa: S104 - compared with, not listened on


@dataclass(frozen=True, slots=True)
class PageResponse:
    """The response of a page to one request."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page.

    Args:
        tail: the part of the URL's path after the path of the page and a slash; may be empty.
        query: by name, the values of each parameter.
        accept: the header Accept; empty if the request has none.
    """

    tail: str
    query: Mapping[str, Sequence[str]]
    accept: str


Page = Callable[[PageRequest], PageResponse]
Guard = Callable[[str, str, str], Awaitable[PageResponse | None]]
"""Returns the response that refuses a request; None if the page may be shown.

Its arguments are the HTTP method, the path and the Authorization header."""


def parse_bind(address: str, flag: str) -> Bind | None:
    """Parse an address to listen on; return None for `0` and "", which mean not to listen.

    Args:
        address: `:8080`, `127.0.0.1:8080`, `[::1]:8080`; `:0` for any free port.
        flag: the setting's name, for the error.

    Raises:
        ConfigurationError: `address` is no such address.
    """
    if address in ("", "0"):
        return None
    host, colon, port = address.rpartition(":")
    # An IPv6 address has colons, so only brackets tell where it ends and the port begins.
    is_ambiguous = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not colon or not port.isdecimal() or int(port) > 65535 or is_ambiguous:
        raise ConfigurationError(
            f"{flag}: {address!r} cannot be parsed: write HOST:PORT, :PORT, or 0 to not listen"
        )
    return Bind(host.strip("[]"), int(port))


def check_listeners(binds: Mapping[str, Bind | None]) -> None:
    """Raise ConfigurationError if two servers of this process are to listen on one address.

    Args:
        binds: the addresses by the names of their settings; None for a server that does not
            listen.

    Raises:
        ConfigurationError: two addresses collide.
    """
    listeners = [(flag, bind) for flag, bind in binds.items() if bind is not None]
    for (flag, bind), (other_flag, other_bind) in combinations(listeners, 2):
        if bind.collides_with(other_bind):
            raise ConfigurationError(
                f"{flag} {bind} and {other_flag} {other_bind} are one address, and one server can"
                " listen on it: choose another port for one of them"
            )
