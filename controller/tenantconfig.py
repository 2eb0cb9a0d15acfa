"""Untrusted kubeconfigs: parsed strictly, without running programs, reading files or proxies.

A kubeconfig can name programs to run, files to send and proxies to use, and a kubeconfig in a
Secret was written by a user with the right to write it. So only inline fields that describe a
server and an identity are accepted. Every other field is refused with a message that names it.
None is ignored: the kubeconfig would mean something else without it.
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from controller.endpoint import Endpoint, StaticToken, create_tls_context, parse_host_url
from controller.errors import ConfigurationError
from controller.proxies import check_proxy
from controller.transport import Transport

# Absent values, where every scalar is parsed as text.
_ABSENT = (None, "", "null", "~")
MAX_BYTES = 256 * 1024
MAX_DEPTH = 16
MAX_NODES = 10_000

# libyaml if it is available: the pure Python parser needs a second for MAX_BYTES.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_REFUSED: Mapping[str, str] = {
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
    """A server and an identity, complete: it refers to no files or programs.

    Args:
        server: the URL.
        authority: PEM of the certificates to trust; empty for the system's.
        certificate: PEM of the client certificate; empty for none.
        key: PEM of the client certificate's key.
        token: bearer token; empty for none.
        server_name: the name in the server's certificate, if it is not the URL's host.
        proxy: URL of a proxy; empty for none.
        insecure: whether the server's certificate is not verified.
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
    """Return the server and identity of the current context of an untrusted kubeconfig.

    Args:
        data: the kubeconfig.
        allow_proxy: whether it may name a proxy.
        allow_insecure: whether it may switch off TLS or the verification of certificates.

    Raises:
        ConfigurationError: it is no kubeconfig, is incomplete, or has a field that is refused.
    """
    document = _load_yaml(data)
    context = _current_context(document)
    cluster = _find_entry(document, "clusters", single="cluster", name=context.get("cluster"))
    user = _find_entry(document, "users", single="user", name=context.get("user"))
    allowed = {"server", "certificate-authority-data", "tls-server-name", "disable-compression"}
    _refuse_others(cluster, "cluster", allowed | {"insecure-skip-tls-verify", "proxy-url"})
    _refuse_others(user, "user", {"client-certificate-data", "client-key-data", "token"})
    insecure = _flag(cluster, "insecure-skip-tls-verify")
    if insecure and not allow_insecure:
        raise _make_refusal(
            "cluster", "insecure-skip-tls-verify", "TLS without checks is not allowed"
        )
    proxy = _text(cluster, "proxy-url")
    if proxy and not allow_proxy:
        raise _make_refusal("cluster", "proxy-url", "proxies are not allowed")
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
        proxy=check_proxy(proxy, "the kubeconfig's proxy-url") if proxy else "",
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
        credentials: the server and how to authenticate.
        max_bytes: size of the largest response that is read.
        timeout: upper limit in seconds for every request.
        user_agent: the User-Agent header of all requests.

    Raises:
        ConfigurationError: the certificates or the key are unusable.
    """
    from controller.httptransport import HttpTransport  # noqa: PLC0415 - aiohttp

    endpoint = Endpoint(
        server=credentials.server,
        credentials=StaticToken(credentials.token),
        tls=_tls(credentials) if credentials.server.startswith("https://") else None,
        server_name=credentials.server_name,
        proxy=credentials.proxy,
        user_agent=user_agent,
    )
    return HttpTransport(endpoint, max_bytes=max_bytes, max_seconds=timeout)


def _load_yaml(data: bytes) -> Mapping[str, Any]:
    """Return the mapping in `data`; all its scalars are text.

    Raises:
        ConfigurationError: it is no mapping, has aliases, or is too large or too deep.
    """
    if len(data) > MAX_BYTES:
        raise ConfigurationError(f"the kubeconfig is larger than {MAX_BYTES} bytes")
    try:
        _check_size(data)
        document = yaml.load(data, Loader=_LOADER)  # noqa: S506 - makes text, lists and mappings only
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark is not None else ""
        raise ConfigurationError(f"the kubeconfig is not YAML{line}") from error
    if not isinstance(document, dict):
        raise ConfigurationError("the kubeconfig is not a YAML mapping")
    return document


def _check_size(data: bytes) -> None:
    """Raise if loading could take much memory: because of aliases, nesting or many entries."""
    depth = 0
    for number, event in enumerate(yaml.parse(data, Loader=_LOADER)):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigurationError("the kubeconfig uses YAML aliases, which are not accepted")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH or number > MAX_NODES:
            raise ConfigurationError("the kubeconfig is nested too deeply or has too many entries")


def _current_context(document: Mapping[str, Any]) -> Mapping[str, Any]:
    name = document.get("current-context")
    contexts = document.get("contexts")
    if name in _ABSENT and isinstance(contexts, list) and len(contexts) == 1:
        name = contexts[0].get("name") if isinstance(contexts[0], dict) else None
    return _find_entry(document, "contexts", single="context", name=name)


def _find_entry(
    document: Mapping[str, Any], plural: str, single: str, name: object
) -> dict[str, Any]:
    """Return the entry `name` of one of the three lists."""
    entries = document.get(plural)
    if not isinstance(entries, list):
        raise ConfigurationError(f"the kubeconfig has no list of {plural}")
    matches = [e for e in entries if isinstance(e, dict) and name and e.get("name") == name]
    if len(matches) != 1 or not isinstance(matches[0].get(single), dict):
        raise ConfigurationError(
            f"the kubeconfig has no {single} {_short(name)}"
            if not matches
            else f"the kubeconfig has more than one {single} {_short(name)}, or an empty one"
        )
    entry: dict[str, Any] = matches[0][single]
    return entry


def _refuse_others(entry: Mapping[str, Any], where: str, allowed: set[str]) -> None:
    for name in entry:
        if name not in allowed and name != "extensions":
            raise _make_refusal(where, name, _REFUSED.get(name, "it is not known here"))


def _make_refusal(where: str, name: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"the kubeconfig's {where} has {_short(name)}: {why}")


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name, "")
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigurationError(f"the kubeconfig's {name} is not a string")
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
        raise ConfigurationError(
            "the kubeconfig's token is not valid: it has spaces or characters that a header"
            " cannot carry"
        )
    return token


def _pem(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name, "")
    try:
        pem = base64.b64decode("".join(value.split()), validate=True).decode("ascii")
    except (AttributeError, binascii.Error, ValueError) as error:
        raise ConfigurationError(f"the kubeconfig's {name} is not PEM in base64") from error
    if pem and "-----BEGIN " not in pem:
        raise ConfigurationError(f"the kubeconfig's {name} is not PEM in base64")
    return pem


def _server(cluster: Mapping[str, Any], *, allow_insecure: bool) -> str:
    """Return the URL of the API server; raise ConfigurationError unless it is https of a host."""
    server = _text(cluster, "server")
    parts = parse_host_url(server)
    if parts is not None and parts.scheme == "http" and not allow_insecure:
        raise ConfigurationError(
            f"the kubeconfig's server {_short(server)} is plain HTTP, which is not allowed"
        )
    if parts is None or parts.query or parts.fragment or parts.username or parts.password:
        raise ConfigurationError(
            f"the kubeconfig's server {_short(server)} is not an https:// URL of a host"
        )
    return server.rstrip("/")


def _short(value: object) -> str:
    """Return the value's repr, cut to a length that fits into a condition's message."""
    return repr(value if value is not None else "")[:80]


def _tls(credentials: TenantCredentials) -> ssl.SSLContext:
    """Return the TLS context of credentials; raise ConfigurationError if they are unusable."""
    try:
        context = create_tls_context(
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
    """Load the client certificate from a temporary file, the only source that ssl accepts."""
    handle, path = tempfile.mkstemp(prefix="tenant-")  # readable by its owner alone
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{credentials.certificate}\n{credentials.key}")
        # Without a password ssl would ask for one on the terminal.
        context.load_cert_chain(path, password="")
    finally:
        os.unlink(path)
