"""Where a server listens: what may be said of it, and how clients then reach it."""

# What stands for every address of this machine; an empty host means it, too.
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104


class ListenError(Exception):
    """The address cannot be listened on; the message says why and what to do."""


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`.

    Raises:
        ListenError: it is no such thing.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ListenError(
            f"{text!r} is no address to listen on; write HOST:PORT, say 127.0.0.1:6443"
        )
    return host.strip("[]") or EVERYWHERE[0], int(port)


def shown(host: str) -> str:
    """Return the host of a URL by which this machine reaches the server."""
    if host in EVERYWHERE:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
