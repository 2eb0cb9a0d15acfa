"""Our own certificate authority, for clusters without cert-manager: what it signs, when, anew.

    authority   10 years   a new one is made a year before its end
    serving      1 year    a new one is signed when a third of that is left, or the names change

A new authority is trusted before it is used: it goes into the bundle at once, the old ones stay
there until they end, and it signs its first certificate an hour later, when every API server has
long seen the new bundle. So a rotation fails no request.

Everything here is a function of what is stored and of the time: replicas come to the same
conclusion, and the one whose write comes first is right.
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

from controller.webhooks.material import Material

AUTHORITY_LIFETIME = timedelta(days=3650)
AUTHORITY_RENEWAL = timedelta(days=365)
SERVING_LIFETIME = timedelta(days=365)
SERVING_RENEWAL = SERVING_LIFETIME / 3
PROPAGATION = timedelta(hours=1)
"""How long a new authority is trusted before it signs."""
SLACK = timedelta(minutes=5)
"""Clocks may disagree by this much."""

_COMMON_NAME_LENGTH = 64


def renewed(material: Material | None, names: Sequence[str], now: datetime) -> Material:
    """Return what should be served by now: `material` itself if that is still right.

    Args:
        material: what is stored; None if there is nothing, or nothing that can be read.
        names: DNS names and addresses that the certificate is for; the first is its own.
        now: the time.
    """
    try:
        parts = None if material is None else _Parts.of(material, now)
    except ValueError:
        parts = None
    if material is None or parts is None:
        return _signed(_new_authority(names, now), names, now)
    if parts.authorities[0].not_valid_after_utc - now <= AUTHORITY_RENEWAL:
        newer = _new_authority(names, now)
        authorities = (*newer.authorities, *parts.authorities)
        bundle = _pem(*authorities)
        if parts.serves(names, now):
            return Material(bundle, _key_pem(newer.key), material.certificate, material.key)
        return _signed(_Parts(authorities, newer.key, None), names, now)
    if parts.serves(names, now) and not parts.serving_due(now):
        return material
    return _signed(parts, names, now)


def next_look(material: Material, now: datetime) -> float:
    """Return the seconds after which `renewed` may say something else; at least a minute."""
    parts = _Parts.of(material, now)
    newest = parts.authorities[0]
    moments = [newest.not_valid_after_utc - AUTHORITY_RENEWAL]
    if parts.certificate is not None:
        moments.append(parts.certificate.not_valid_after_utc - SERVING_RENEWAL)
        if not parts.by_newest():
            moments.append(newest.not_valid_before_utc + SLACK + PROPAGATION)
    return max(60.0, (min(moments) - now).total_seconds())


@dataclass(frozen=True, slots=True)
class _Parts:
    """Material, parsed: authorities that have not ended, the key of the newest, what is served."""

    authorities: tuple[x509.Certificate, ...]
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate | None

    @classmethod
    def of(cls, material: Material, now: datetime) -> "_Parts":
        """Return the parts.

        Raises:
            ValueError: something is no PEM, does not belong together, or has ended.
        """
        key = serialization.load_pem_private_key(material.authority_key, password=None)
        serving = serialization.load_pem_private_key(material.key, password=None)
        certificate = x509.load_pem_x509_certificate(material.certificate)
        authorities = tuple(x509.load_pem_x509_certificates(material.bundle))
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(
            serving, ec.EllipticCurvePrivateKey
        ):
            raise ValueError("not keys of ours")  # noqa: TRY004 - what is stored is wrong, no type
        if authorities[0].public_key() != key.public_key():
            raise ValueError("the authority's key is another one's")
        if authorities[0].not_valid_after_utc <= now:
            raise ValueError("the authority has ended")
        valid = tuple(one for one in authorities if one.not_valid_after_utc > now)
        fits = certificate.public_key() == serving.public_key()
        return cls(valid, key, certificate if fits else None)

    def serves(self, names: Sequence[str], now: datetime) -> bool:
        """Whether what is served is for these names, has not ended, and is trusted."""
        return (
            self.certificate is not None
            and _names_of(self.certificate) == sorted(set(names))
            and self.certificate.not_valid_after_utc > now
            and any(_signed_by(self.certificate, one) for one in self.authorities)
        )

    def serving_due(self, now: datetime) -> bool:
        """Whether it is time for a new serving certificate by the newest authority."""
        assert self.certificate is not None
        if not self.by_newest():
            return now >= self.authorities[0].not_valid_before_utc + SLACK + PROPAGATION
        return self.certificate.not_valid_after_utc - now <= SERVING_RENEWAL

    def by_newest(self) -> bool:
        """Whether what is served was signed by the newest authority."""
        return self.certificate is not None and _signed_by(self.certificate, self.authorities[0])


def _new_authority(names: Sequence[str], now: datetime) -> _Parts:
    key = ec.generate_private_key(ec.SECP256R1())
    # The time tells authorities of one service apart, for people who look into the bundle.
    name = _name(f"{names[0]}-ca-{now:%Y%m%d%H%M%S}")
    certificate = (
        _builder(name, name, key.public_key(), now, now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _Parts((certificate,), key, None)


def _signed(parts: _Parts, names: Sequence[str], now: datetime) -> Material:
    """Return the material with a new serving certificate by the newest authority."""
    authority, key = parts.authorities[0], ec.generate_private_key(ec.SECP256R1())
    until = min(now + SERVING_LIFETIME, authority.not_valid_after_utc)
    certificate = (
        _builder(_name(names[0]), authority.subject, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_general(name) for name in names]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(parts.key.public_key()),
            critical=False,
        )
        .sign(parts.key, hashes.SHA256())
    )
    return Material(
        _pem(*parts.authorities), _key_pem(parts.key), _pem(certificate), _key_pem(key)
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(until)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
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


def _name(text: str) -> x509.Name:
    short = text[-_COMMON_NAME_LENGTH:]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, short)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_of(certificate: x509.Certificate) -> list[str]:
    try:
        held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in held.get_values_for_type(x509.IPAddress)]
    return sorted({*held.get_values_for_type(x509.DNSName), *addresses})


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
