"""A certificate authority, a server and a client, made for each run of the tests."""

import datetime
import ipaddress
from dataclasses import dataclass
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


@lru_cache
def create_authority_and_pair(*, complete: bool = True) -> tuple[bytes, Pair]:
    """Return an authority's certificate (PEM), and a pair that it signed.

    The pair serves 127.0.0.1 and api.example.com, and is the client certificate of `admin`.

    Args:
        complete: add the key identifiers and key usages that RFC 5280 requires; certificates of
            many older authorities have neither.
    """
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")])
    ca = _create_builder(ca_name, ca_name, ca_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    if complete:
        ca = ca.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False
        ).add_extension(_create_usage(signs_certificates=True), critical=True)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "admin")])
    alternatives = [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.DNSName("api.example.com"),
    ]
    leaf = _create_builder(name, ca_name, key).add_extension(
        x509.SubjectAlternativeName(alternatives), critical=False
    )
    if complete:
        leaf = leaf.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()),
            critical=False,
        ).add_extension(_create_usage(signs_certificates=False), critical=True)
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    signed = leaf.sign(ca_key, hashes.SHA256())
    return ca.sign(ca_key, hashes.SHA256()).public_bytes(pem), Pair(
        signed.public_bytes(pem), secret
    )


@lru_cache
def create_encrypted_key() -> bytes:
    """Return a private key (PEM) that is encrypted with the password `secret`."""
    key = ec.generate_private_key(ec.SECP256R1())
    encryption = serialization.BestAvailableEncryption(b"secret")
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )


def _create_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the key usage of a server and client, and on request of an authority, too."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _create_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """Return the builder of a certificate that is valid from an hour ago for a day from now."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
