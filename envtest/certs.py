"""A local certificate authority, the certificates that it signs, and TLS settings of clients."""

import datetime
import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from envtest.keys import REMEDY, create_key, encode_pem, read_key, write_private_file
from envtest.storage import DiskError

_LIFETIME = datetime.timedelta(days=3650)
_SLACK = datetime.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write NAME.crt and NAME.key, the key readable by the owner only; return both paths."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


class Authority:
    """A certificate authority, new or read from a folder."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.pair = _encode_pair(certificate, key)
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls) -> Self:
        """Create a new authority with a self-signed certificate."""
        key = create_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "envtest-ca")])
        certificate = (
            _build_unsigned_certificate(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_build_key_usage(is_authority=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def read_or_create(cls, folder: Path) -> Self:
        """Read the authority of a folder; create it if there is none.

        Raises:
            DiskError: its certificate or key is damaged.
        """
        certificate, key = folder / "ca.crt", folder / "ca.key"
        if certificate.exists() and key.exists():
            return cls(*_read_pair(certificate, key))
        authority = cls.create()
        # The certificate is written last. If the process ends in between, the next one creates a
        # new authority.
        write_private_file(key, authority.pair.key.decode())
        write_private_file(certificate, authority.pair.certificate.decode())
        return authority

    def issue_server_certificate(self, *hosts: str) -> KeyPair:
        """Create and sign a server certificate for host names and addresses."""
        names: list[x509.GeneralName] = []
        for host in dict.fromkeys(hosts):
            try:
                names.append(x509.IPAddress(ipaddress.ip_address(host)))
            except ValueError:
                names.append(x509.DNSName(host))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "envtest")])
        return self._issue_certificate(subject, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def issue_client_certificate(self, user: str, groups: tuple[str, ...] = ()) -> KeyPair:
        """Create and sign a client certificate of a user.

        The common name is the user, and organizations are the groups.
        """
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue_certificate(subject, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _issue_certificate(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, names: list[x509.GeneralName]
    ) -> KeyPair:
        """Create a key, and sign its certificate by this authority.

        Args:
            subject: the owner of the certificate.
            usage: the authentication of a server or of a client.
            names: host names and addresses of a server; empty for a client.
        """
        key = create_key()
        builder = _build_unsigned_certificate(subject, self._certificate.subject, key)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        ).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            _build_key_usage(is_authority=False), critical=True
        ).add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
            critical=False,
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _encode_pair(builder.sign(self._key, hashes.SHA256()), key)


def _read_pair(
    certificate: Path, key: Path
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Read a certificate and its key from their files.

    Raises:
        DiskError: one of them is damaged, or they do not belong together.
    """
    private = read_key(key)
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (ValueError, OSError) as error:
        raise DiskError(f"{certificate} contains no certificate ({error}); {REMEDY}") from error
    if loaded.public_key() != private.public_key():
        raise DiskError(f"{certificate} is not the certificate of {key}; {REMEDY}")
    return loaded, private


def create_client_tls(authority: bytes, pair: KeyPair | None) -> ssl.SSLContext:
    """Return the TLS settings of a kubeconfig's user.

    The strict RFC 5280 checks, which are the default since Python 3.13, are off. Some clusters
    have authorities without key identifiers, which kubectl and Go's clients accept.

    Args:
        authority: the authorities to trust, as PEM; empty for those of the machine.
        pair: the client certificate; None for a user without one.
    """
    context = ssl.create_default_context(cadata=authority.decode() or None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if pair is not None:
        with tempfile.TemporaryDirectory(prefix="envtest-") as folder:
            context.load_cert_chain(*pair.write(Path(folder), "user"))
    return context


def _build_unsigned_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """Return a certificate without extensions and signature, for the public part of a key."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + _LIFETIME)
    )


def _build_key_usage(*, is_authority: bool) -> x509.KeyUsage:
    """Return the uses of a key: to sign data or, for an authority, certificates as well."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _encode_pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    """Return a certificate and its key as PEM."""
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), encode_pem(key))
