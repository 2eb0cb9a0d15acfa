"""How to reach a webhook: the checks that CRDs and admission configurations have in common.

Texts and order follow apiserver's util/webhook/validation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from envtest.schema.errors import FieldError, invalid, required
from envtest.schema.gotext import quote
from envtest.schema.gourl import parse_request_uri
from envtest.schema.names import subdomain_errors

_FORM: Final = "; desired format: https://host[/path]"
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*):")
_ODD_IN_HOST: Final = re.compile(r'[\x00-\x20"#/<>?@\\^`{|}\x7f]')
_PORTS: Final = range(1, 65536)


def client_errors(config: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with a clientConfig.

    Args:
        config: the object; what is not set may be missing.
        path: where it stands.
    """
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if service is not None:
        return _service_errors(service, f"{path}.service")
    return _url_errors(str(url), f"{path}.url")


def _url_errors(url: str, path: str) -> list[FieldError]:
    bare, _, fragment = url.partition("#")
    fault = _fault(bare)
    if fault:
        text = f"url must be a valid URL: parse {quote(bare)}: {fault}{_FORM}"
        return [required(path, text)]
    scheme = _SCHEME.match(bare)
    named = scheme[1].lower() if scheme else ""
    rest = bare[scheme.end() :] if scheme else bare
    rest, _, query = rest.partition("?")
    authority = rest[2:].partition("/")[0] if rest.startswith("//") else ""
    user, _, host = authority.rpartition("@")
    out: list[FieldError] = []
    if named != "https":
        out.append(invalid(path, named, f"'https' is the only allowed URL scheme{_FORM}"))
    if not host:
        out.append(invalid(path, host, f"host must be specified{_FORM}"))
    if user:
        out.append(invalid(path, user, "user information is not permitted in the URL"))
    if fragment:
        out.append(invalid(path, fragment, "fragments are not permitted in the URL"))
    if query:
        out.append(invalid(path, query, "query parameters are not permitted in the URL"))
    return out


def _fault(url: str) -> str:
    """What keeps a text from being a URL in Go's eyes; nothing if it is one."""
    if re.search(r"[\x00-\x1f\x7f]", url):
        return "net/url: invalid control character in URL"
    if url.startswith(":"):
        return "missing protocol scheme"
    first = url.partition("/")[0].partition("?")[0]
    if not _SCHEME.match(url):
        return "first path segment in URL cannot contain colon" if ":" in first else ""
    return "" if parse_request_uri(url) else _refused_part(url)


def _refused_part(url: str) -> str:
    """Name the part of a URL that Go cannot read."""
    escape = re.search(r"%(?![0-9a-fA-F]{2}).{0,2}", url)
    if escape:
        return f"invalid URL escape {quote(escape[0])}"
    host = url.partition("//")[2].partition("/")[0].rpartition("@")[2]
    if host.startswith("[") and "]" not in host:
        return "missing ']' in host"
    port = re.search(r":(?!\d*$).*$", host.rpartition("]")[2])
    if port:
        return f"invalid port {quote(port[0])} after host"
    odd = _ODD_IN_HOST.search(host)
    return f"invalid character {quote(odd[0])} in host name" if odd else "invalid URL"


def _service_errors(service: Mapping[str, Any], path: str) -> list[FieldError]:
    out = [required(f"{path}.{name}") for name in ("name", "namespace") if not service.get(name)]
    text, port = service.get("path"), service.get("port", 443)
    if port not in _PORTS:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        out.append(invalid(f"{path}.port", port, detail))
    if text is not None:
        out += _path_errors(text, f"{path}.path")
    return out


def _path_errors(text: str, path: str) -> list[FieldError]:
    out: list[FieldError] = []
    if text in {"", "/"}:
        return out
    if not text.startswith("/"):
        out.append(invalid(path, text, "must start with a '/'"))
    for index, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if not segment:
            out.append(invalid(path, text, f"segment[{index}] may not be empty"))
            continue
        errors = subdomain_errors(segment)
        out += [invalid(path, text, f"segment[{index}]: {error}") for error in errors]
    return out
