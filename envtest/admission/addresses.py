"""Where a webhook is: the URL of its clientConfig, what is dialled for it, and whom to trust."""

import base64
import binascii
import posixpath
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import quote as percent_quote
from urllib.parse import unquote, urlsplit

import anyio
from anyio.streams.tls import TLSAttribute
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from envtest.admission.answers import CallFailed
from envtest.schema.gotext import quote
from envtest.server.api import Api

_PORT: Final = 443
# What Go leaves unescaped in a path.
_PATH_SAFE: Final = "/$&+,:;=@~"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to send a review.

    Attributes:
        url: the address as messages show it.
        dialled: the same with the host that is connected to.
        host: the Host header.
        server_name: the name that the certificate must be for.
    """

    url: str
    dialled: str
    host: str
    server_name: str


def address_of(api: Api, client: Mapping[str, Any], seconds: int) -> Address:
    """Return where a webhook is.

    A Service is found by its cluster address, as the real server does without a proxy of its own.
    Behind the embedded server nobody routes cluster addresses; a Service of type ExternalName
    that names, say, `localhost` is reached on either server.

    Args:
        api: the state, for services.
        client: the clientConfig.
        seconds: how long the webhook has; it is told so.

    Raises:
        CallFailed: the service is not there, or leads nowhere.
    """
    if client.get("url"):
        parts = urlsplit(str(client["url"]))
        url = f"{parts.scheme}://{parts.netloc}{_path(parts.path)}?timeout={seconds}s"
        return Address(url, url, parts.netloc, parts.hostname or "")
    service = client.get("service") or {}
    name, namespace = str(service.get("name")), str(service.get("namespace"))
    port = int(service.get("port") or _PORT)
    server_name = f"{name}.{namespace}.svc"
    rest = f"{_path(str(service.get('path') or ''))}?timeout={seconds}s"
    url = f"https://{server_name}:{port}{rest}"
    try:
        host = _route(api, namespace, name, port)
    except LookupError as error:
        raise CallFailed(f'failed to call webhook: Post "{url}": {error.args[0]}') from None
    return Address(url, f"https://{host}:{port}{rest}", f"{server_name}:{port}", server_name)


def _path(path: str) -> str:
    """Return a path as Go's path.Join makes it: clean, without a slash at the end."""
    clean = posixpath.normpath("/" + unquote(path).lstrip("/"))
    return percent_quote(clean, safe=_PATH_SAFE)


def _route(api: Api, namespace: str, name: str, port: int) -> str:
    """Return the host that a service stands for.

    Raises:
        LookupError: none; the message is the real server's.
    """
    services = api.registry.find("", "v1", "services")
    assert services is not None
    stored = api.table(services).get(f"{namespace}/{name}")
    if stored is None:
        raise LookupError(f'service "{name}" not found')
    spec = services.load(stored).get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName"))
    if spec.get("clusterIP") == "None":
        raise LookupError('cannot route to service with ClusterIP "None"')
    if all(one.get("port") != port for one in spec.get("ports") or ()):
        raise LookupError(f'no service port {port} found for service "{name}"')
    address = str(spec.get("clusterIP"))
    return f"[{address}]" if ":" in address else address


_UNKNOWN = "x509: certificate signed by unknown authority"
# OpenSSL's codes: not valid yet, not any more; for other hosts, for other addresses.
_DATES = frozenset({9, 10})
_NAMES = frozenset({62, 64})


@lru_cache(maxsize=256)
def trust(bundle: str) -> ssl.SSLContext:
    """Return TLS settings that trust a caBundle (base64 of PEM), or the system's without one.

    Go asks less than Python's defaults: any certificate of the bundle may be the end of a chain,
    and extensions may be missing. It asks more, too: common names do not count.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if not bundle:
        context.load_default_certs()
        return context
    # Where nothing in it is a certificate, nobody is trusted, as in Go.
    with suppress(ssl.SSLError, ValueError, binascii.Error):
        context.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
    return context


async def certificate_fault(
    error: Exception, bundle: str, name: str, server: tuple[str, int]
) -> str:
    """Return Go's words for a certificate that was refused.

    The certificate itself is asked for once more, because Python does not tell what it says.

    Args:
        error: Python's refusal.
        bundle: who was trusted.
        name: what the certificate should be for.
        server: host and port that were dialled.
    """
    code = getattr(error, "verify_code", 0)
    shown = await _shown(*server)
    if shown is None:
        return _UNKNOWN
    if code in _DATES:
        return _out_of_date(shown)
    return _for_others(shown, name) if code in _NAMES else _UNKNOWN + _hint(shown, bundle)


def _hint(shown: x509.Certificate, bundle: str) -> str:
    """Name an authority that is trusted and called like the one that signed, but is another."""
    try:
        trusted = x509.load_pem_x509_certificates(base64.b64decode(bundle))
    except (ValueError, binascii.Error):
        return ""
    for one in trusted:
        if one.subject != shown.issuer:
            continue
        is_curve = isinstance(one.public_key(), ec.EllipticCurvePublicKey)
        why = "x509: ECDSA verification failure" if is_curve else "crypto/rsa: verification error"
        names = one.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        called = str(names[0].value) if names else f"serial:{one.serial_number}"
        return (
            f" (possibly because of {quote(why)} while trying to verify candidate authority "
            f"certificate {quote(called)})"
        )
    return ""


def _out_of_date(certificate: x509.Certificate) -> str:
    now = datetime.now(UTC)
    early = now < certificate.not_valid_before_utc
    bound = certificate.not_valid_before_utc if early else certificate.not_valid_after_utc
    relation = "before" if early else "after"
    return (
        f"x509: certificate has expired or is not yet valid: current time {now:%Y-%m-%dT%H:%M:%SZ}"
        f" is {relation} {bound:%Y-%m-%dT%H:%M:%SZ}"
    )


def _for_others(certificate: x509.Certificate, host: str) -> str:
    """Say which names a certificate is for instead."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    addresses = [str(one) for one in names.get_values_for_type(x509.IPAddress)]
    if _address(host) is not None:
        if not addresses:
            return (
                f"x509: cannot validate certificate for {host} because it doesn't contain "
                "any IP SANs"
            )
        return f"x509: certificate is valid for {', '.join(addresses)}, not {host}"
    hosts = names.get_values_for_type(x509.DNSName)
    if not hosts:
        return f"x509: certificate is not valid for any names, but wanted to match {host}"
    return f"x509: certificate is valid for {', '.join(hosts)}, not {host}"


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


async def _shown(host: str, port: int) -> x509.Certificate | None:
    """Return the certificate that a server shows, whoever signed it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with await anyio.connect_tcp(
            host, port, tls=True, ssl_context=context, tls_standard_compatible=False
        ) as stream:
            held = stream.extra_attributes[TLSAttribute.peer_certificate_binary]
            data: bytes | None = held()
    except (OSError, ssl.SSLError):
        return None
    return None if data is None else x509.load_der_x509_certificate(data)
