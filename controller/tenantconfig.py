"""Kubeconfigs that others wrote: read strictly, run nothing, open nothing, trust nothing.

A kubeconfig can name programs to run, files to send and proxies to pass. One that comes out
of a Secret was written by whoever may write that Secret. So only what describes a server and an
identity is taken, inline; everything else is refused with a sentence that names it, and never
skipped in silence: a kubeconfig without the part that we left out would mean something else.
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from controller.endpoint import Endpoint, StaticToken, tls_context
from controller.errors import ConfigurationError
from controller.proxies import checked_proxy
from controller.strictyaml import load_strictly
from controller.transport import HttpTransport, Transport

# What stands for nothing, where every scalar is read as text.
_ABSENT = (None, "", "null", "~")

_NOT_TAKEN: Mapping[str, str] = {
    "certificate-authority": "it names a file; use certificate-authority-data",
    "client-certificate": "it names a file; use client-certificate-data",
    "client-key": "it names a file; use client-key-data",
    "tokenFile": "it names a file; use token",
    "exec": "it names a program to run",
    "auth-provider": "it names a plugin to run",
    "username": "passwords are not accepted by API servers",
    "password": "passwords are not accepted by API servers",
}


@dataclass(frozen=True, slots=True)
class TenantCredentials:
    """A server and an identity, with nothing left to look up.

    Args:
        server: the URL.
        authority: PEM of the certificates to trust; empty for the machine's own.
        certificate: PEM of the client certificate; empty for none.
        key: PEM of its key.
        token: bearer token; empty for none.
        server_name: the name in the server's certificate, where it is not the URL's host.
        proxy: URL of a proxy; empty for none.
        insecure: whether the server's certificate goes unchecked.
    """

    server: str
    authority: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    server_name: str = ""
    proxy: str = field(default="", repr=False)
    insecure: bool = False


def parse_kubeconfig(
    data: bytes, *, allow_proxy: bool = False, allow_insecure: bool = False
) -> TenantCredentials:
    """Return what the current context of an untrusted kubeconfig says.

    Args:
        data: the kubeconfig.
        allow_proxy: whether it may send us through a proxy.
        allow_insecure: whether it may switch TLS or its checks off.

    Raises:
        ConfigurationError: it is none, incomplete, or wants what is not allowed.
    """
    document = load_strictly(data)
    context = _current(document)
    cluster = _named(document, "clusters", "cluster", context.get("cluster"))
    user = _named(document, "users", "user", context.get("user"))
    allowed = {"server", "certificate-authority-data", "tls-server-name", "disable-compression"}
    _refuse_others(cluster, "cluster", allowed | {"insecure-skip-tls-verify", "proxy-url"})
    _refuse_others(user, "user", {"client-certificate-data", "client-key-data", "token"})
    insecure = _flag(cluster, "insecure-skip-tls-verify")
    if insecure and not allow_insecure:
        raise _refused("cluster", "insecure-skip-tls-verify", "TLS without checks is not allowed")
    proxy = _text(cluster, "proxy-url")
    if proxy and not allow_proxy:
        raise _refused("cluster", "proxy-url", "proxies are not allowed")
    certificate, key = _pem(user, "client-certificate-data"), _pem(user, "client-key-data")
    token = _token(user)
    if bool(certificate) != bool(key):
        raise ConfigurationError(
            "the kubeconfig has one of client-certificate-data and client-key-data, not both"
        )
    if not certificate and not token:
        raise ConfigurationError(
            "the kubeconfig's user has neither a token nor a client certificate"
        )
    return TenantCredentials(
        server=_server(cluster, allow_insecure=allow_insecure),
        authority=_pem(cluster, "certificate-authority-data"),
        certificate=certificate,
        key=key,
        token=token,
        server_name=_text(cluster, "tls-server-name"),
        proxy=checked_proxy(proxy, "the kubeconfig's proxy-url") if proxy else "",
        insecure=insecure,
    )


def tenant_transport(
    credentials: TenantCredentials,
    *,
    max_bytes: int,
    timeout: float,
    user_agent: str = "controller",
) -> Transport:
    """Return a transport to an untrusted server.

    Args:
        credentials: where to and as whom.
        max_bytes: of the largest answer that is read.
        timeout: seconds that one request may take, whatever its caller would wait.
        user_agent: how we introduce ourselves.

    Raises:
        ConfigurationError: the certificates or the key are unusable.
    """
    endpoint = Endpoint(
        server=credentials.server,
        credentials=StaticToken(credentials.token),
        tls=_tls(credentials) if credentials.server.startswith("https://") else None,
        server_name=credentials.server_name,
        proxy=credentials.proxy,
        user_agent=user_agent,
    )
    return HttpTransport(endpoint, max_bytes=max_bytes, max_seconds=timeout)


def _current(document: Mapping[str, Any]) -> Mapping[str, Any]:
    name = document.get("current-context")
    contexts = document.get("contexts")
    if name in _ABSENT and isinstance(contexts, list) and len(contexts) == 1:
        name = contexts[0].get("name") if isinstance(contexts[0], dict) else None
    return _named(document, "contexts", "context", name)


def _named(document: Mapping[str, Any], plural: str, single: str, name: object) -> dict[str, Any]:
    """Return the entry `name` of one of the three lists."""
    entries = document.get(plural)
    if not isinstance(entries, list):
        raise ConfigurationError(f"the kubeconfig has no list of {plural}")
    found = [e for e in entries if isinstance(e, dict) and name and e.get("name") == name]
    if len(found) != 1 or not isinstance(found[0].get(single), dict):
        raise ConfigurationError(
            f"the kubeconfig has no {single} {_short(name)}"
            if not found
            else f"the kubeconfig has more than one {single} {_short(name)}, or an empty one"
        )
    entry: dict[str, Any] = found[0][single]
    return entry


def _refuse_others(entry: Mapping[str, Any], where: str, allowed: set[str]) -> None:
    for name in entry:
        if name not in allowed and name != "extensions":
            raise _refused(where, name, _NOT_TAKEN.get(name, "it is not known here"))


def _refused(where: str, name: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"the kubeconfig's {where} has {_short(name)}: {why}")


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name, "")
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigurationError(f"the kubeconfig's {name} is no text")
    return "" if value in _ABSENT else value.strip()


def _flag(entry: Mapping[str, Any], name: str) -> bool:
    value = _text(entry, name).lower()
    if value not in {"", "true", "false"}:
        raise ConfigurationError(f"the kubeconfig's {name} is neither true nor false")
    return value == "true"


def _token(user: Mapping[str, Any]) -> str:
    value = user.get("token", "")
    token = value.strip() if isinstance(value, str) else "\n"
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("the kubeconfig's token is none: it has spaces or odd characters")
    return token


def _pem(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name, "")
    try:
        text = base64.b64decode("".join(value.split()), validate=True).decode("ascii")
    except (AttributeError, binascii.Error, ValueError) as error:
        raise ConfigurationError(f"the kubeconfig's {name} is no PEM in base64") from error
    if text and "-----BEGIN " not in text:
        raise ConfigurationError(f"the kubeconfig's {name} is no PEM in base64")
    return text


def _server(cluster: Mapping[str, Any], *, allow_insecure: bool) -> str:
    server = _text(cluster, "server")
    try:
        parts = urlsplit(server)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme == "http" and not allow_insecure:
        raise ConfigurationError(
            f"the kubeconfig's server {_short(server)} is plain HTTP, which is not allowed"
        )
    plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or not plain:
        raise ConfigurationError(
            f"the kubeconfig's server {_short(server)} is no https:// URL of a host"
        )
    return server.rstrip("/")


def _short(value: object) -> str:
    """Return a name out of the kubeconfig in a form that fits into a condition."""
    return repr(value if value is not None else "")[:80]


def _tls(credentials: TenantCredentials) -> ssl.SSLContext:
    try:
        context = tls_context(
            cadata=credentials.authority or None, verify=not credentials.insecure
        )
        if credentials.certificate:
            _load_pair(context, credentials)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise ConfigurationError(
            f"the kubeconfig's certificates or key for {credentials.server} cannot be used:"
            f" {reason}"
        ) from error
    return context


def _load_pair(context: ssl.SSLContext, credentials: TenantCredentials) -> None:
    """Load the client certificate; ssl takes it from a file only, which is gone at once."""
    handle, path = tempfile.mkstemp(prefix="tenant-")  # readable by its owner alone
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{credentials.certificate}\n{credentials.key}")
        # With a password given, an encrypted key is an error and no question on the terminal.
        context.load_cert_chain(path, password="")
    finally:
        os.unlink(path)
