"""Texts that tenants write are not kept, however many there are."""

from reconcilers.addressing import addresstexts


def test_a_text_that_is_too_long_for_an_address_is_not_kept() -> None:
    long = "1" * 250_000
    before = addresstexts._parse_ends.cache_info(), addresstexts._parse_cidr_or_span.cache_info()
    for number in range(100):
        assert addresstexts.parse_ends(f"{long}{number}", long) is None
        assert addresstexts.parse_cidr_or_span(f"{long}{number}") is None
    after = addresstexts._parse_ends.cache_info(), addresstexts._parse_cidr_or_span.cache_info()
    assert after == before
