"""Conversion between versions: none, or by a webhook that can be reached and understood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from envtest.schema.errors import FieldError, forbidden, invalid, not_supported, required
from envtest.schema.names import label_1035_errors
from envtest.schema.webhookclients import client_errors

_Body = Mapping[str, Any]
_PATH: Final = "spec.conversion"
_CLIENT: Final = f"{_PATH}.webhookClientConfig"
_REVIEWS: Final = f"{_PATH}.conversionReviewVersions"


def conversion_errors(conversion: _Body | None) -> list[FieldError]:
    """What is wrong with `spec.conversion`."""
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
        return out + _client_errors(webhook.get("clientConfig")) + _review_errors(reviews)
    detail = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig") is not None:
        out.append(forbidden(_CLIENT, detail))
    if reviews:
        out.append(forbidden(_REVIEWS, detail))
    return out


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
