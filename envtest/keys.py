"""Private keys and other secrets in files: atomic writes, and clear errors for damaged files."""

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from envtest.storage import DiskError

REMEDY = "restore it from a copy, or give another folder"


def create_key() -> ec.EllipticCurvePrivateKey:
    """Return a new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def read_or_create_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a key from a file; create the file, readable only by its owner, if there is none.

    Raises:
        DiskError: the file does not contain such a key.
    """
    if path.exists():
        return read_key(path)
    key = create_key()
    write_private_file(path, encode_pem(key).decode())
    return key


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read an elliptic curve key from a file.

    Raises:
        DiskError: the file does not contain such a key.
    """
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm, OSError) as error:
        raise DiskError(f"{path} contains no private key ({error}); {REMEDY}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise DiskError(f"{path} contains a key that is not an elliptic curve key; {REMEDY}")
    return key


def write_private_file(path: Path, content: str) -> None:
    """Write a file that only its owner can read, atomically: under another name, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    # A file that a killed process of the same number left.
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    temporary.write_text(content, encoding="utf-8")
    temporary.replace(path)


def encode_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
