"""Conversion between versions: none, or by a webhook that can be reached and understood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from envtest.schema.errors import FieldError, forbidden, invalid, not_supported, required
from envtest.schema.gourl import parse_request_uri
from envtest.schema.names import label_1035_errors, subdomain_errors

_Body = Mapping[str, Any]
_PATH: Final = "spec.conversion"
_CLIENT: Final = f"{_PATH}.webhookClientConfig"
_REVIEWS: Final = f"{_PATH}.conversionReviewVersions"
_FORM: Final = "; desired format: https://host[/path]"


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
    url, service = config.get("url"), config.get("service")
    if url is not None and service is None:
        return _url_errors(url)
    if url is None and service is not None:
        return _service_errors(service)
    return [required(_CLIENT, "exactly one of url or service is required")]


def _url_errors(url: str) -> list[FieldError]:
    path = f"{_CLIENT}.url"
    bare, hash_mark, fragment = url.partition("#")
    parsed = parse_request_uri(bare)
    if parsed is None:
        return [required(path, f"url must be a valid URL: parse {url!r}{_FORM}")]
    out: list[FieldError] = []
    if parsed.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_FORM}"
        out.append(invalid(path, parsed.scheme, detail))
    if not parsed.host:
        out.append(invalid(path, parsed.host, f"host must be specified{_FORM}"))
    if "@" in bare.partition("//")[2].partition("/")[0]:
        out.append(invalid(path, url, "user information is not permitted in the URL"))
    if hash_mark:
        out.append(invalid(path, fragment, "fragments are not permitted in the URL"))
    if parsed.query:
        detail = "query parameters are not permitted in the URL"
        out.append(invalid(path, parsed.query, detail))
    return out


def _service_errors(service: _Body) -> list[FieldError]:
    path = f"{_CLIENT}.service"
    out = [required(f"{path}.{name}") for name in ("name", "namespace") if not service.get(name)]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        out.append(invalid(f"{path}.port", port, detail))
    if service.get("path") is not None:
        out += _path_errors(service["path"], f"{path}.path")
    return out


def _path_errors(text: str, path: str) -> list[FieldError]:
    out: list[FieldError] = []
    if text in {"", "/"}:
        return out
    if not text.startswith("/"):
        out.append(invalid(path, text, "must start with a '/'"))
    segments = text[1:].split("/")
    for index, segment in enumerate(segments):
        if not segment and index < len(segments) - 1:
            out.append(invalid(path, text, f"segment[{index}] may not be empty"))
        elif segment:
            errors = subdomain_errors(segment)
            out += [invalid(path, text, f"segment[{index}]: {error}") for error in errors]
    return out


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
