"""Until when a certificate is valid, read from its bytes.

The standard library tells that only of a certificate that a peer has shown, and `cryptography`
takes 8 MiB that a controller with certificates from elsewhere need not pay. What stands before
the date is stepped over (RFC 5280, section 4.1); that it is a certificate, OpenSSL has checked.
"""

import re
from base64 import b64decode
from datetime import UTC, datetime

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION = 0xA0
_UTC_TIME = 0x17


def valid_until(pem: bytes) -> datetime:
    """Return the notAfter of the first certificate in `pem`.

    Raises:
        ValueError: there is no certificate, or it cannot be read.
    """
    block = _BLOCK.search(pem)
    if block is None:
        raise ValueError("there is no certificate in it")
    try:
        _, certificate, _ = _element(b64decode(block[1]))
        _, signed, _ = _element(certificate)
        tag, _, rest = _element(signed)
        for _ in range(3 if tag == _VERSION else 2):  # serial number, signature, issuer
            _, _, rest = _element(rest)
        _, validity, _ = _element(rest)
        _, _, rest = _element(validity)
        tag, text, _ = _element(rest)
    except IndexError as error:
        raise ValueError("the certificate is cut short") from error
    written = text.decode("ascii")
    if tag == _UTC_TIME:
        # Two digits of a year: 50 to 99 are of the last century (RFC 5280, section 4.1.2.5.1).
        written = ("20" if written < "50" else "19") + written
    return datetime.strptime(written, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """Return tag and content of the first element, and what follows it."""
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start])
    if len(der) < start + length:
        raise IndexError(length)
    return der[0], der[start : start + length], der[start + length :]
