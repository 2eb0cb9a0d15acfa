"""The expiry of certificates, compared with the one that the package cryptography reads."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.certificates import CertificateMetrics, ServingCertificate, parse_expiry

KEY = ec.generate_private_key(ec.SECP256R1())
EARLIEST_EXPIRY = datetime(1951, 1, 1, tzinfo=UTC)
EXPIRIES = st.integers(0, 8000 * 365 * 86400).map(
    lambda seconds: EARLIEST_EXPIRY + timedelta(seconds=seconds)
)


def create_certificate(expiry: datetime, name: str = "x", serial: int = 1) -> bytes:
    """Return a self-signed certificate (PEM) that is valid for the day before `expiry`."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, KEY.public_key(), serial)
    built = builder.not_valid_before(expiry - timedelta(days=1)).not_valid_after(expiry)
    return built.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@settings(deadline=None)
@given(EXPIRIES, st.text("ab", min_size=1, max_size=64), st.integers(1, 2**159 - 1))
def test_the_expiry_is_parsed_whatever_the_subject_and_serial_number(
    expiry: datetime, name: str, serial: int
) -> None:
    pem = create_certificate(expiry, name, serial)
    expected = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    assert parse_expiry(b"words before\n" + pem + pem) == expected == expiry


@pytest.mark.parametrize(
    ("pem", "message_part"),
    [
        (b"", "there is no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "cut short"),
        (b"-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", "cut short"),
        (b"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n", "padding"),
    ],
)
def test_bytes_that_are_no_certificate_are_refused(pem: bytes, message_part: str) -> None:
    with pytest.raises(ValueError, match=message_part):
        parse_expiry(pem)


PRIVATE_KEY = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
EXPIRY = datetime(2030, 5, 1, tzinfo=UTC)


def test_a_pair_that_cannot_be_used_is_logged_again_after_a_good_one() -> None:
    serving_certificate = ServingCertificate("webhook", CertificateMetrics(CollectorRegistry()))
    good, bad = create_certificate(EXPIRY), create_certificate(EXPIRY)[:99]
    with capture_logs() as lines:
        for certificate in (good, bad, bad, good, bad):
            serving_certificate.replace(certificate, PRIVATE_KEY)
    errors = [line for line in lines if line["log_level"] == "error"]
    assert len(errors) == 2


def test_the_expiry_of_the_present_certificate_is_a_metric() -> None:
    registry = CollectorRegistry()
    serving_certificate = ServingCertificate("webhook", CertificateMetrics(registry))
    assert serving_certificate.replace(create_certificate(EXPIRY), PRIVATE_KEY)
    assert not serving_certificate.replace(
        create_certificate(EXPIRY + timedelta(days=1))[:99], PRIVATE_KEY
    )
    name = "controller_certificate_expiry_timestamp_seconds"
    metric = registry.get_sample_value(name, {"server": "webhook"})
    assert metric == EXPIRY.timestamp()
