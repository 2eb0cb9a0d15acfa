"""Self-signed certificates: valid for the API server, renewed in time, without a gap."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.webhooks.authority import (
    AUTHORITY_LIFETIME,
    AUTHORITY_RENEWAL,
    PROPAGATION,
    SERVING_LIFETIME,
    SLACK,
    compute_seconds_until_due,
    renew_if_due,
)
from controller.webhooks.kinds import KeyMaterial
from tests.clock import START

NAMES = ("hook.system.svc", "hook.system.svc.cluster.local", "127.0.0.1")
DAY = timedelta(days=1)


def is_trusted(bundle: bytes, material: KeyMaterial, now: datetime) -> bool:
    """Whether a client that trusts `bundle` accepts the serving certificate."""
    store = Store(x509.load_pem_x509_certificates(bundle))
    verifier = PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(NAMES[0]))
    try:
        verifier.verify(x509.load_pem_x509_certificate(material.certificate), [])
    except x509.verification.VerificationError:
        return False
    return True


def read_expiry(certificate: bytes) -> datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def test_a_new_certificate_is_trusted_by_its_bundle_under_its_names() -> None:
    material = renew_if_due(None, NAMES, START)
    assert is_trusted(material.bundle, material, START)
    names = x509.load_pem_x509_certificate(
        material.certificate
    ).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert tuple(names.value.get_values_for_type(x509.DNSName)) == NAMES[:2]
    assert [str(address) for address in names.value.get_values_for_type(x509.IPAddress)] == [
        "127.0.0.1"
    ]


def test_nothing_changes_while_nothing_is_due() -> None:
    material = renew_if_due(None, NAMES, START)
    assert renew_if_due(material, NAMES, START + timedelta(days=200)) is material


def test_a_serving_certificate_is_renewed_when_a_third_of_its_life_is_left() -> None:
    material = renew_if_due(None, NAMES, START)
    due = START + timedelta(seconds=compute_seconds_until_due(material, START))
    assert renew_if_due(material, NAMES, due - DAY) is material
    again = renew_if_due(material, NAMES, due)
    assert again.bundle == material.bundle
    assert read_expiry(again.certificate) - due == SERVING_LIFETIME
    assert is_trusted(material.bundle, again, due)


def test_other_names_need_another_certificate_of_the_same_authority() -> None:
    material = renew_if_due(None, NAMES, START)
    again = renew_if_due(material, (*NAMES, "more.example.com"), START)
    assert again.bundle == material.bundle
    assert again.certificate != material.certificate


@pytest.mark.parametrize(
    "broken",
    [
        {"bundle": b""},
        {"bundle": b"nonsense"},
        {"authority_key": b""},
        {"certificate": b"nonsense"},
        {"key": b""},
    ],
)
def test_key_material_that_cannot_be_decoded_is_replaced(broken: dict[str, bytes]) -> None:
    material = replace(renew_if_due(None, NAMES, START), **broken)
    again = renew_if_due(material, NAMES, START)
    assert again.bundle != material.bundle
    assert is_trusted(again.bundle, again, START)


def test_a_key_of_another_authority_or_certificate_is_noticed() -> None:
    material, other = renew_if_due(None, NAMES, START), renew_if_due(None, NAMES, START)
    for mixed in (
        replace(material, authority_key=other.authority_key),
        replace(material, key=other.key),
        replace(material, certificate=other.certificate, key=other.key),
    ):
        again = renew_if_due(mixed, NAMES, START)
        assert again != mixed
        assert is_trusted(again.bundle, again, START)
        assert renew_if_due(again, NAMES, START) is again


def test_a_new_authority_is_trusted_an_hour_before_it_signs() -> None:
    late = START + AUTHORITY_LIFETIME - AUTHORITY_RENEWAL
    old = renew_if_due(None, NAMES, START)
    renewed = renew_if_due(old, NAMES, late - 30 * DAY)
    announced = renew_if_due(renewed, NAMES, late)
    assert announced.certificate == renewed.certificate
    assert announced.bundle.endswith(renewed.bundle)
    assert announced.bundle != renewed.bundle
    assert renew_if_due(announced, NAMES, late + PROPAGATION / 2) is announced
    after = late + PROPAGATION + SLACK
    assert compute_seconds_until_due(announced, late) <= (after - late).total_seconds()
    switched = renew_if_due(announced, NAMES, after)
    assert switched.bundle == announced.bundle
    assert switched.certificate != announced.certificate
    assert is_trusted(announced.bundle, switched, after)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=40))
def test_at_any_time_the_previous_bundle_trusts_the_present_certificate(
    pauses: list[int],
) -> None:
    now = START
    material = renew_if_due(None, NAMES, now)
    for days in pauses:
        # Looked at when it asks for it, as the service does, or days later after an outage.
        until = now + days * DAY
        while (due := now + timedelta(seconds=compute_seconds_until_due(material, now))) < until:
            before, now = material, due
            material = renew_if_due(material, NAMES, now)
            assert is_trusted(before.bundle, material, now)
            assert is_trusted(material.bundle, before, now)
        now = until
        material = renew_if_due(material, NAMES, now)
        assert is_trusted(material.bundle, material, now)
        assert len(x509.load_pem_x509_certificates(material.bundle)) <= 2
