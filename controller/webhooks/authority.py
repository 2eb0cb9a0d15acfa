"""The certificate authority for self-signed webhook certificates.

    authority             10 years   replaced a year before it expires
    serving certificate    1 year    replaced when a third of that is left, or the names change

The bundle is the list of authorities that API servers trust. A new authority is trusted before it
is used: it is added to the bundle at once, and signs its first certificate an hour later, when
every API server has the new bundle. Old authorities stay in the bundle until they expire. So a
rotation makes no request fail.

Everything here is a function of the stored material and the time, so all replicas decide alike,
and it does not matter whose write comes first.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.webhooks.kinds import KeyMaterial

AUTHORITY_LIFETIME = timedelta(days=3650)
AUTHORITY_RENEWAL = timedelta(days=365)
SERVING_LIFETIME = timedelta(days=365)
SERVING_RENEWAL = SERVING_LIFETIME / 3
PROPAGATION = timedelta(hours=1)
"""How long a new authority is in the bundle before it signs."""
SLACK = timedelta(minutes=5)
"""Certificates are valid so much earlier, because clocks differ."""

_COMMON_NAME_LENGTH = 64
"""The most characters of a common name (RFC 5280, ub-common-name)."""
_LEAST_SECONDS = 60.0
"""The shortest delay before material is checked again, so that no loop is busy."""


def renew_if_due(material: KeyMaterial | None, names: Sequence[str], now: datetime) -> KeyMaterial:
    """Return the key material to store now; `material` itself if nothing is due.

    Args:
        material: the stored key material; None if none is stored, or if it cannot be decoded.
        names: the DNS names and addresses in the certificate; the first is its common name.
        now: the time.
    """
    try:
        parts = None if material is None else _parse_material(material, now)
    except ValueError:
        parts = None  # broken or expired material is replaced, like material that is missing
    if material is None or parts is None:  # nothing that can be used is stored
        return _sign_serving_certificate(_create_authority(names, now), names, now)
    if parts.authorities[0].not_valid_after_utc - now <= AUTHORITY_RENEWAL:
        newer = _create_authority(names, now)
        authorities = (*newer.authorities, *parts.authorities)
        bundle = _encode_certificates(*authorities)
        if parts.is_usable(names, now):
            # Keep the serving certificate: API servers do not trust the new authority yet.
            return KeyMaterial(
                bundle, _encode_key(newer.key), certificate=material.certificate, key=material.key
            )
        # No API server accepts the serving certificate, so nothing is lost by signing at once.
        return _sign_serving_certificate(_ParsedMaterial(authorities, newer.key, None), names, now)
    if parts.is_usable(names, now) and not parts.must_renew_serving(now):
        return material
    return _sign_serving_certificate(parts, names, now)


def compute_seconds_until_due(material: KeyMaterial, now: datetime) -> float:
    """Return the seconds until `renew_if_due` may renew this material, at least _LEAST_SECONDS.

    Args:
        material: as `renew_if_due` has just returned it, so it has a serving certificate.
        now: the time.
    """
    parts = _parse_material(material, now)
    newest = parts.authorities[0]
    times = [newest.not_valid_after_utc - AUTHORITY_RENEWAL]
    if parts.certificate is not None:
        times.append(parts.certificate.not_valid_after_utc - SERVING_RENEWAL)
        if not parts.is_signed_by_newest():
            times.append(newest.not_valid_before_utc + SLACK + PROPAGATION)
    return max(_LEAST_SECONDS, (min(times) - now).total_seconds())


@dataclass(frozen=True, slots=True)
class _ParsedMaterial:
    """Parsed key material.

    Args:
        authorities: the authorities that have not expired, the newest first.
        key: the private key of the newest authority.
        certificate: the serving certificate; None if it was not made for the stored key.
    """

    authorities: tuple[x509.Certificate, ...]
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate | None

    def is_usable(self, names: Sequence[str], now: datetime) -> bool:
        """Return whether there is a serving certificate with these names, valid and trusted."""
        return (
            self.certificate is not None
            and _read_names(self.certificate) == sorted(set(names))
            and self.certificate.not_valid_after_utc > now
            and any(_is_signed_by(self.certificate, authority) for authority in self.authorities)
        )

    def must_renew_serving(self, now: datetime) -> bool:
        """Return whether the newest authority has to sign a new serving certificate now.

        There must be a serving certificate.
        """
        assert self.certificate is not None
        if not self.is_signed_by_newest():
            # The newest authority signs only when API servers have had time to learn of it.
            return now >= self.authorities[0].not_valid_before_utc + SLACK + PROPAGATION
        return self.certificate.not_valid_after_utc - now <= SERVING_RENEWAL

    def is_signed_by_newest(self) -> bool:
        """Return whether the newest authority signed the serving certificate."""
        return self.certificate is not None and _is_signed_by(
            self.certificate, self.authorities[0]
        )


def _parse_material(material: KeyMaterial, now: datetime) -> _ParsedMaterial:
    """Return the parsed material.

    Raises:
        ValueError: a part is no PEM, a key is of another type than made here, or the newest
            authority has another key or has expired.
    """
    key = serialization.load_pem_private_key(material.authority_key, password=None)
    serving = serialization.load_pem_private_key(material.key, password=None)
    certificate = x509.load_pem_x509_certificate(material.certificate)
    authorities = tuple(x509.load_pem_x509_certificates(material.bundle))
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(
        serving, ec.EllipticCurvePrivateKey
    ):
        raise ValueError("a key is not an elliptic curve key")  # noqa: TRY004 - stored data is wrong
    if authorities[0].public_key() != key.public_key():
        raise ValueError("the key is not that of the authority")
    if authorities[0].not_valid_after_utc <= now:
        raise ValueError("the authority has expired")
    valid = tuple(authority for authority in authorities if authority.not_valid_after_utc > now)
    # No TLS server can use a certificate with another key than its own.
    has_key = certificate.public_key() == serving.public_key()
    return _ParsedMaterial(valid, key, certificate if has_key else None)


def _create_authority(names: Sequence[str], now: datetime) -> _ParsedMaterial:
    """Return a new authority with its key, and without a serving certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    # The time makes the names of a service's authorities differ, for people who read the bundle.
    name = _create_common_name(f"{names[0]}-ca-{now:%Y%m%d%H%M%S}")
    certificate = (
        _create_builder(name, name, key=key.public_key(), now=now, until=now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_create_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _ParsedMaterial((certificate,), key, None)


def _sign_serving_certificate(
    parts: _ParsedMaterial, names: Sequence[str], now: datetime
) -> KeyMaterial:
    """Return the material with a new serving certificate, signed by the newest authority."""
    authority, key = parts.authorities[0], ec.generate_private_key(ec.SECP256R1())
    # A certificate is worth nothing after its authority has expired.
    until = min(now + SERVING_LIFETIME, authority.not_valid_after_utc)
    certificate = (
        _create_builder(
            _create_common_name(names[0]),
            authority.subject,
            key=key.public_key(),
            now=now,
            until=until,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_create_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_create_general_name(name) for name in names]),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(parts.key.public_key()),
            critical=False,
        )
        .sign(parts.key, hashes.SHA256())
    )
    return KeyMaterial(
        _encode_certificates(*parts.authorities),
        _encode_key(parts.key),
        certificate=_encode_certificates(certificate),
        key=_encode_key(key),
    )


def _create_builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    """Return a certificate with the fields that all have; the caller adds extensions and signs."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(until)
    )


def _create_key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the uses of a key: that of an authority signs certificates and revocation lists."""
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


def _create_common_name(common_name: str) -> x509.Name:
    """Return a common name for a certificate; only the end of a text that is too long.

    The ends of the names of authorities differ: there is the time.
    """
    short = common_name[-_COMMON_NAME_LENGTH:]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, short)])


def _create_general_name(name: str) -> x509.GeneralName:
    """Return a name for a certificate as an IP address if it is one, else as a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _read_names(certificate: x509.Certificate) -> list[str]:
    """Return the DNS names and addresses in a certificate, sorted."""
    try:
        extension = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in extension.get_values_for_type(x509.IPAddress)]
    return sorted({*extension.get_values_for_type(x509.DNSName), *addresses})


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether an authority signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        # ValueError: the issuer has another name. TypeError: the authority's key cannot verify.
        return False
    return True


def _encode_certificates(*certificates: x509.Certificate) -> bytes:
    """Return certificates as one PEM text, in the given order."""
    return b"".join(
        certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates
    )


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM, without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
