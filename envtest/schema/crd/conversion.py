"""Conversion between versions: none, or by a webhook that can be reached and understood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from envtest.schema.authorities import bundle_fault
from envtest.schema.errors import FieldError, forbidden, invalid, not_supported, required
from envtest.schema.names import label_1035_errors
from envtest.schema.webhookclients import client_errors

_Body = Mapping[str, Any]
_PATH: Final = "spec.conversion"
_CLIENT: Final = f"{_PATH}.webhookClientConfig"
_REVIEWS: Final = f"{_PATH}.conversionReviewVersions"


def conversion_errors(
    conversion: _Body | None, held: _Body | None = None, *, served: bool = False
) -> list[FieldError]:
    """What is wrong with `spec.conversion`.

    Args:
        conversion: the object, or None.
        held: what it replaces; a caBundle without certificates may stay.
        served: whether the CRD is established. Until then any caBundle will do: it is what a CRD
            waits with for the one who injects the certificates.
    """
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    out: list[FieldError] = []
    if not strategy:
        out.append(required(f"{_PATH}.strategy"))
    elif strategy not in {"None", "Webhook"}:
        out.append(not_supported(f"{_PATH}.strategy", strategy, ("None", "Webhook")))
    reviews = webhook.get("conversionReviewVersions") or []
    if strategy == "Webhook":
        out += _client_errors(webhook.get("clientConfig"))
        fault = ca_bundle_fault(conversion)
        if fault and served and not ca_bundle_fault(held):
            out.append(invalid(f"{_CLIENT}.caBundle", webhook["clientConfig"]["caBundle"], fault))
        return out + _review_errors(reviews)
    detail = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig") is not None:
        out.append(forbidden(_CLIENT, detail))
    if reviews:
        out.append(forbidden(_REVIEWS, detail))
    return out


def ca_bundle_fault(conversion: _Body | None) -> str:
    """What keeps the webhook's caBundle from being used; nothing if it can be or there is none."""
    client = ((conversion or {}).get("webhook") or {}).get("clientConfig")
    bundle = (client or {}).get("caBundle")
    return bundle_fault(bundle) if bundle else ""


def _client_errors(config: _Body | None) -> list[FieldError]:
    if config is None:
        return [required(_CLIENT, "required when strategy is set to Webhook")]
    return client_errors(config, _CLIENT)


def _review_errors(reviews: Sequence[str]) -> list[FieldError]:
    if not reviews:
        return [required(_REVIEWS)]
    out: list[FieldError] = []
    for index, version in enumerate(reviews):
        if version in reviews[:index]:
            out.append(invalid(f"{_REVIEWS}[{index}]", version, "duplicate version"))
            continue
        errors = label_1035_errors(version)
        out += [invalid(f"{_REVIEWS}[{index}]", version, error) for error in errors]
    if not {"v1", "v1beta1"} & set(reviews):
        out.append(invalid(_REVIEWS, list(reviews), "must include at least one of v1, v1beta1"))
    return out
