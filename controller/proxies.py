"""Which proxy the environment wants for a server: HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from controller.errors import ConfigurationError


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for `server`; empty for none.

    As Go's net/http does, NO_PROXY may hold networks too: without that, a pod with NO_PROXY set
    to the service network would go to its own API server through the proxy.

    Args:
        server: URL of the API server.
        environ: the environment's variables.
    """
    parts = urlsplit(server)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(name) or environ.get(name.lower()) or ""
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    host = parts.hostname or ""
    if (
        not proxy
        or host == "localhost"
        or any(_names(entry, host) for entry in _split(exceptions))
    ):
        return ""
    return checked_proxy(proxy if "://" in proxy else f"http://{proxy}", f"the variable {name}")


def checked_proxy(proxy: str, where: str) -> str:
    """Return `proxy` if it is one that can be used.

    Raises:
        ConfigurationError: it is no HTTP proxy; the sentence says `where` it came from.
    """
    parts = urlsplit(proxy)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(
            f"{where} names the proxy {proxy[:100]!r}, but only http:// and https:// proxies are"
            " supported"
        )
    return proxy


def _split(entries: str) -> list[str]:
    return [entry.strip() for entry in entries.split(",") if entry.strip()]


def _names(entry: str, host: str) -> bool:
    """Whether one entry of NO_PROXY covers `host`."""
    if entry == "*":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        suffix = entry.removeprefix("*").removeprefix(".").split(":")[0]
        return host == suffix or host.endswith(f".{suffix}")
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return address.is_loopback
