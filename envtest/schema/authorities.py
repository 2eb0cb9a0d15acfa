"""Bundles of certificates: what Go makes a pool of trusted authorities of, and what it does not.

Rules and texts follow client-go's transport.TLSConfigFor, by which the server judges a caBundle.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from cryptography import x509

_BLOCK: Final = re.compile(
    rb"^-----BEGIN ([^\r\n]*)-----[ \t]*\r?\n(.*?)^-----END \1-----[ \t]*(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)


def bundle_fault(bundle: str) -> str:
    """What keeps a caBundle from being used; nothing where it holds a certificate.

    Args:
        bundle: base64 of PEM. Blocks of other kinds and with headers do not count, nor do broken
            certificates beside a sound one.
    """
    try:
        data = base64.b64decode(bundle)
    except ValueError:
        data = b"?"
    broken, end = False, 0
    for block in _BLOCK.finditer(data):
        end = block.end()
        if block[1] != b"CERTIFICATE" or b":" in block[2]:
            continue
        try:
            x509.load_der_x509_certificate(base64.b64decode(block[2]))
        except ValueError:
            broken = True
        else:
            return ""
    if broken:
        why = "failed to parse certificate: x509: malformed certificate"
    elif data[end:]:
        why = "unable to parse bytes as PEM block"
    else:
        why = "no valid certificate authority data seen"
    return f"unable to load root certificates: {why}"
