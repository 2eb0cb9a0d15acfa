"""Validation of a webhook's clientConfig, which CRDs and admission configurations have in common.

Texts and order follow apiserver's util/webhook/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from controller.managedfields.gotext import quote
from envtest.schema.errors import FieldError, build_invalid_error, build_required_error
from envtest.schema.names import find_subdomain_errors

_URL_FORM: Final = "; desired format: https://host[/path]"
_PORTS: Final = range(1, 65536)


def find_client_errors(config: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the errors of a clientConfig.

    Args:
        config: the clientConfig.
    """
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [build_required_error(path, "exactly one of url or service is required")]
    if service is not None:
        return _find_service_errors(service, f"{path}.service")
    return _find_url_errors(str(url), f"{path}.url")


def _find_url_errors(url: str, path: str) -> list[FieldError]:
    """Return the errors of a webhook's URL, which must be https without user or query."""
    try:
        parts = urlsplit(url)
        # The port is read for its ValueError.
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        detail = f"url must be a valid URL: parse {quote(url)}: {error}{_URL_FORM}"
        return [build_required_error(path, detail)]
    out: list[FieldError] = []
    if parts.scheme != "https":
        out.append(
            build_invalid_error(
                path, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"
            )
        )
    if not host:
        out.append(build_invalid_error(path, "", f"host must be specified{_URL_FORM}"))
    if user := parts.netloc.rpartition("@")[0]:
        out.append(build_invalid_error(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        out.append(
            build_invalid_error(path, parts.fragment, "fragments are not permitted in the URL")
        )
    if parts.query:
        out.append(
            build_invalid_error(path, parts.query, "query parameters are not permitted in the URL")
        )
    return out


def _find_service_errors(service: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the errors of the reference to a webhook's Service."""
    out = [
        build_required_error(f"{path}.{name}")
        for name in ("name", "namespace")
        if not service.get(name)
    ]
    url_path, port = service.get("path"), service.get("port", 443)
    if port not in _PORTS:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        out.append(build_invalid_error(f"{path}.port", port, detail))
    if url_path is not None:
        out += _find_path_errors(url_path, f"{path}.path")
    return out


def _find_path_errors(url_path: str, path: str) -> list[FieldError]:
    """Return the errors of the URL path of a webhook's service."""
    out: list[FieldError] = []
    # Both mean the root.
    if url_path in {"", "/"}:
        return out
    if not url_path.startswith("/"):
        out.append(build_invalid_error(path, url_path, "must start with a '/'"))
    for index, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            out.append(build_invalid_error(path, url_path, f"segment[{index}] may not be empty"))
            continue
        errors = find_subdomain_errors(segment)
        out += [
            build_invalid_error(path, url_path, f"segment[{index}]: {error}") for error in errors
        ]
    return out
