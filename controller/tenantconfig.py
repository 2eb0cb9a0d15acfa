"""Parses untrusted kubeconfigs strictly, without running programs, reading files or using proxies.

A kubeconfig can name programs to run, files to send and proxies to use. Any user who may write a
Secret may write the kubeconfig in it. So only inline fields that describe a server and an identity
are accepted. Every other field is refused with a message that names it. No field is ignored: the
kubeconfig would mean something else without it.
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
from controller.yamlerrors import YAML_ERRORS

_ABSENT = (None, "", "null", "~")
"""Values that mean an absent field; every scalar is parsed as text."""
MAX_BYTES = 256 * 1024
"""Bytes of the largest kubeconfig."""
MAX_DEPTH = 16
"""Levels of nesting."""
MAX_NODES = 10_000
"""Number of YAML events: scalars, and beginnings and ends of lists and mappings."""

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
    """A server and an identity, with no reference to files or programs.

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
        allow_proxy: whether the kubeconfig may name a proxy.
        allow_insecure: whether the kubeconfig may switch off TLS or the verification of
            certificates.

    Raises:
        ConfigurationError: `data` is no kubeconfig, is incomplete, or has a field that is refused.
    """
    document = _load_yaml(data)
    context = _find_current_context(document)
    cluster = _find_entry(document, "clusters", single="cluster", name=context.get("cluster"))
    user = _find_entry(document, "users", single="user", name=context.get("user"))
    # disable-compression is accepted and not read: the meaning of a request does not depend on it.
    allowed = {"server", "certificate-authority-data", "tls-server-name", "disable-compression"}
    _refuse_other_fields(cluster, "cluster", allowed | {"insecure-skip-tls-verify", "proxy-url"})
    _refuse_other_fields(user, "user", {"client-certificate-data", "client-key-data", "token"})
    insecure = _parse_flag(cluster, "insecure-skip-tls-verify")
    if insecure and not allow_insecure:
        raise _make_refusal(
            "cluster", "insecure-skip-tls-verify", "TLS without checks is not allowed"
        )
    proxy = _parse_text(cluster, "proxy-url")
    if proxy and not allow_proxy:
        raise _make_refusal("cluster", "proxy-url", "proxies are not allowed")
    certificate = _parse_pem(user, "client-certificate-data")
    key = _parse_pem(user, "client-key-data")
    token = _parse_token(user)
    if bool(certificate) != bool(key):
        raise ConfigurationError(
            "the kubeconfig has one of client-certificate-data and client-key-data, not both"
        )
    if not certificate and not token:
        raise ConfigurationError(
            "the kubeconfig's user has neither a token nor a client certificate"
        )
    return TenantCredentials(
        server=_parse_server(cluster, allow_insecure=allow_insecure),
        authority=_parse_pem(cluster, "certificate-authority-data"),
        certificate=certificate,
        key=key,
        token=token,
        server_name=_parse_text(cluster, "tls-server-name"),
        proxy=check_proxy(proxy, "the kubeconfig's proxy-url") if proxy else "",
        insecure=insecure,
    )


def create_tenant_transport(
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
        tls=_create_tls(credentials) if credentials.server.startswith("https://") else None,
        server_name=credentials.server_name,
        proxy=credentials.proxy,
        user_agent=user_agent,
    )
    return HttpTransport(endpoint, max_bytes=max_bytes, max_seconds=timeout)


def _load_yaml(data: bytes) -> Mapping[str, Any]:
    """Return the mapping in `data`; all its scalars are text.

    Raises:
        ConfigurationError: `data` is no mapping, has aliases, or is too large or too deep.
    """
    if len(data) > MAX_BYTES:
        raise ConfigurationError(f"the kubeconfig is larger than {MAX_BYTES} bytes")
    try:
        _check_size(data)
        document = yaml.load(data, Loader=_LOADER)  # noqa: S506 - makes text, lists and mappings only
    except YAML_ERRORS as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark is not None else ""
        raise ConfigurationError(f"the kubeconfig is not YAML{line}") from error
    if not isinstance(document, dict):
        raise ConfigurationError("the kubeconfig is not a YAML mapping")
    return document


def _check_size(data: bytes) -> None:
    """Raise ConfigurationError for aliases, nesting or many entries, which take much memory."""
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


def _find_current_context(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the current context; without current-context, the only context if there is one."""
    name = document.get("current-context")
    contexts = document.get("contexts")
    if name in _ABSENT and isinstance(contexts, list) and len(contexts) == 1:
        name = contexts[0].get("name") if isinstance(contexts[0], dict) else None
    return _find_entry(document, "contexts", single="context", name=name)


def _find_entry(
    document: Mapping[str, Any], plural: str, single: str, name: object
) -> dict[str, Any]:
    """Return the fields of a context, cluster or user.

    Args:
        document: the kubeconfig.
        plural: the list: `contexts`, `clusters` or `users`.
        single: the field of an entry with its fields: `context`, `cluster` or `user`.
        name: the name of the entry.

    Raises:
        ConfigurationError: there is no such entry, or several: it is unclear which is meant.
    """
    entries = document.get(plural)
    if not isinstance(entries, list):
        raise ConfigurationError(f"the kubeconfig has no list of {plural}")
    # Without a name to look for, an entry without a name must not match.
    matches = [
        candidate
        for candidate in entries
        if name and isinstance(candidate, dict) and candidate.get("name") == name
    ]
    if len(matches) != 1 or not isinstance(matches[0].get(single), dict):
        raise ConfigurationError(
            f"the kubeconfig has no {single} {_shorten(name)}"
            if not matches
            else f"the kubeconfig has more than one {single} {_shorten(name)}, or an empty one"
        )
    entry: dict[str, Any] = matches[0][single]
    return entry


def _refuse_other_fields(entry: Mapping[str, Any], where: str, allowed: set[str]) -> None:
    """Raise ConfigurationError for a field of an entry that is not allowed."""
    for name in entry:
        if name not in allowed and name != "extensions":  # extensions mean nothing to clients
            raise _make_refusal(where, name, _REFUSED.get(name, "it is not known here"))


def _make_refusal(where: str, name: str, why: str) -> ConfigurationError:
    """Return the error for a field that is refused."""
    return ConfigurationError(f"the kubeconfig's {where} has {_shorten(name)}: {why}")


def _parse_text(entry: Mapping[str, Any], name: str) -> str:
    """Return the text in a field; empty if the field is absent.

    Raises:
        ConfigurationError: the value is no text, or has control characters.
    """
    value = entry.get(name, "")
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigurationError(f"the kubeconfig's {name} is not a string")
    return "" if value in _ABSENT else value.strip()


def _parse_flag(entry: Mapping[str, Any], name: str) -> bool:
    """Return the boolean in a field; False if the field is absent.

    Raises:
        ConfigurationError: the value is neither true nor false.
    """
    value = _parse_text(entry, name).lower()
    if value not in {"", "true", "false"}:
        raise ConfigurationError(f"the kubeconfig's {name} is neither true nor false")
    return value == "true"


def _parse_token(user: Mapping[str, Any]) -> str:
    """Return the bearer token of a user; empty if it has none.

    Raises:
        ConfigurationError: the token cannot be sent in a header.
    """
    value = user.get("token", "")
    if value in _ABSENT:
        return ""
    token = value.strip() if isinstance(value, str) else "\n"  # other types fail the check below
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(
            "the kubeconfig's token is not valid: it has spaces or characters that a header"
            " cannot carry"
        )
    return token


def _parse_pem(entry: Mapping[str, Any], name: str) -> str:
    """Return the PEM in a field, where it is in base64; empty if the field is absent.

    Raises:
        ConfigurationError: the value is not PEM in base64.
    """
    value = entry.get(name, "")
    if value in _ABSENT:
        return ""
    try:
        # The base64 may be wrapped into lines. A value that is no text has no `split`.
        pem = base64.b64decode("".join(value.split()), validate=True).decode("ascii")
    except (AttributeError, binascii.Error, ValueError) as error:
        raise ConfigurationError(f"the kubeconfig's {name} is not PEM in base64") from error
    if pem and "-----BEGIN " not in pem:
        raise ConfigurationError(f"the kubeconfig's {name} is not PEM in base64")
    return pem


def _parse_server(cluster: Mapping[str, Any], *, allow_insecure: bool) -> str:
    """Return the URL of the API server, without a slash at the end.

    Raises:
        ConfigurationError: it is no https:// URL of a host, or has a query, a fragment or a user.
            http:// is accepted with `allow_insecure`.
    """
    server = _parse_text(cluster, "server")
    parts = parse_host_url(server)
    if parts is not None and parts.scheme == "http" and not allow_insecure:
        raise ConfigurationError(
            f"the kubeconfig's server {_shorten(server)} is plain HTTP, which is not allowed"
        )
    if parts is None or parts.query or parts.fragment or parts.username or parts.password:
        raise ConfigurationError(
            f"the kubeconfig's server {_shorten(server)} is not an https:// URL of a host"
        )
    return server.rstrip("/")


def _shorten(value: object) -> str:
    """Return the value's repr, cut to a length that fits into a condition's message."""
    return repr(value if value is not None else "")[:80]


def _create_tls(credentials: TenantCredentials) -> ssl.SSLContext:
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
