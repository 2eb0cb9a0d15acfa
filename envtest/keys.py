"""Private keys and other secrets in files: written in one step, damage reported clearly."""

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from envtest.storage import DiskError

REMEDY = "restore it from a copy, or give another folder"


def create_key() -> ec.EllipticCurvePrivateKey:
    """Make a key."""
    return ec.generate_private_key(ec.SECP256R1())


def read_or_create_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a key, or make one there that only its owner can read.

    Raises:
        DiskError: what is there is no such key.
    """
    if path.exists():
        return read_key(path)
    key = create_key()
    write_private(path, pem(key).decode())
    return key


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a key of the kind that is made here.

    Raises:
        DiskError: it is none.
    """
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm, OSError) as error:
        raise DiskError(f"{path} holds no private key ({error}); {REMEDY}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise DiskError(f"{path} holds a key that is not of elliptic curves; {REMEDY}")
    return key


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner can read, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    part.write_text(content, encoding="utf-8")
    part.replace(path)


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
