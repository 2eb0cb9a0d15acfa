"""What is wrong with certificates and requests for them, in PEM inside base64, in Go's words."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from cryptography import x509

_BLOCK: Final = re.compile(
    rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n(.*?)-----END \1-----[ \t]*(?:\r?\n|\Z)", re.DOTALL
)
_REQUEST: Final = "CERTIFICATE REQUEST"


def request_fault(coded: str) -> str:
    """Return why something is no signed request for a certificate; nothing if it is one."""
    blocks = list(_blocks(coded))
    if not blocks or blocks[0][0] != _REQUEST:
        return f"PEM block type must be {_REQUEST}"
    try:
        request = x509.load_der_x509_csr(blocks[0][2])
    except ValueError:
        return "asn1: structure error: malformed certificate request"
    return "" if request.is_signature_valid else "x509: the signature does not fit the request"


def certificate_fault(coded: str) -> str:
    """Return why something is no list of certificates; nothing if it is one."""
    found = False
    for kind, has_headers, content in _blocks(coded):
        if kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind}"'
        if has_headers:
            return "no PEM block headers are permitted"
        try:
            x509.load_der_x509_certificate(content)
        except ValueError:
            return "x509: malformed certificate"
        found = True
    return "" if found else "must contain at least one CERTIFICATE PEM block"


def _blocks(coded: str) -> Iterator[tuple[str, bool, bytes]]:
    """Yield type, whether there are headers, and content of each block that can be read."""
    for match in _BLOCK.finditer(base64.b64decode(coded)):
        content = match[2].replace(b"\r", b"")
        headers, empty, rest = content.partition(b"\n\n")
        has_headers = bool(empty) and b":" in headers
        try:
            data = base64.b64decode(rest if has_headers else content, validate=False)
        except binascii.Error:
            continue
        yield match[1].decode(), has_headers, data
