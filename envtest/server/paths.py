"""Paths that are no resources: health, version, discovery and OpenAPI.

Some of them are routes, which know their methods and do not mind a slash at the end; others are
plain handlers, which mind the path alone.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec

from envtest.kinds.catalogue import resources
from envtest.server import clock, discovery
from envtest.server.api import Api
from envtest.server.failures import method_not_allowed, not_acceptable
from envtest.server.forms import JSON, SPOKEN, check_route, negotiate_groups, negotiate_plain
from envtest.server.health import CHECKS, PROBES, probe
from envtest.server.metrics import METRICS_TYPE, metrics
from envtest.server.openapi import OpenApi
from envtest.server.rendering import render_document
from envtest.wire.query import Query

_TEXT = "text/plain; charset=utf-8"
_BUILTIN = frozenset(name.rpartition("/")[0] for name in resources())
_AGGREGATED = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SWAGGER_PROTOBUF_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_NOT_SNIFFED = {"X-Content-Type-Options": "nosniff"}
_ROOTS = ("/api", "/api/", "/apis", "/apis/")


class Document(msgspec.Struct, frozen=True):
    """An answer that is no object of the API.

    Args:
        data: its bytes.
        media: their type; nothing where there are none.
        code: its status.
        headers: that it has on top of those of every answer, or instead of them.
        pretty: whether it is indented for who looks like a person.
        packed: whether it is compressed for who takes that.
    """

    data: bytes
    media: str = ""
    code: int = 200
    headers: Mapping[str, str] = {}
    pretty: bool = False
    packed: bool = False


class Documents:
    """The documents of one server.

    Args:
        api: the state behind it.
        openapi: what is told of it.
        address: by which the client reaches the server.
    """

    def __init__(self, api: Api, openapi: OpenApi, address: str) -> None:
        self._api = api
        self._registry = api.registry
        self._openapi = openapi
        self._address = address

    def find(
        self, method: str, path: str, query: Query, headers: Mapping[str, str]
    ) -> Document | None:
        """Return a document, if there is one at a path.

        Args:
            method: of the request.
            path: of the request.
            query: of the request.
            headers: of the request; what is accepted and already known counts.

        Raises:
            StatusError: 405 or 406.
        """
        accept = headers.get("Accept", "")
        told = probe(path, excluded=query.all_of("exclude"), verbose="verbose" in query)
        if told is not None:
            whole = path.count("/") == 1
            return Document(told, _TEXT, headers=_NOT_SNIFFED if whole else {})
        if path.startswith("//"):
            return None
        if path.startswith("/openapi/"):
            return self._open(path, query, accept, headers.get("If-None-Match", ""))
        if path in _ROOTS:
            return self._root(method, path.strip("/"), accept, headers.get("If-None-Match", ""))
        return self._alone(path) or self._below(method, path, accept)

    def _alone(self, path: str) -> Document | None:
        """Return what stands at a path of its own."""
        if path in {"/", "/index.html"}:
            return _indented({"paths": self._paths()})
        return Document(metrics(self._api), METRICS_TYPE) if path == "/metrics" else None

    def _root(self, method: str, root: str, accept: str, known: str) -> Document | None:
        """Return the groups, or all that they have at once."""
        if root == "api":
            _check_method(method)
        media = negotiate_groups(accept)
        if media is None:
            if root == "api":
                return _told(discovery.core_versions(self._address), accept)
            return _told(discovery.group_list(self._registry), accept)
        body = discovery.aggregated(self._registry, core=root == "api")
        # The tag is of the content, whatever the form.
        tag = _tag(msgspec.json.encode(body))
        headers = {"ETag": tag, "Vary": "Accept", "Cache-Control": "public"}
        if known == tag:
            return Document(b"", code=304, headers=headers)
        return Document(render_document(body, media), f"{media};{_AGGREGATED}", headers=headers)

    def _below(self, method: str, path: str, accept: str) -> Document | None:
        """Return what is told of one group or version, or of the server."""
        match path.strip("/").split("/"):
            case ["version"]:
                _check_method(method)
                return _indented(discovery.VERSION)
            case ["api", version]:
                body = discovery.resource_list(self._registry, "", version)
                return _told(body, accept, method=method)
            case ["apis", group]:
                return _told(discovery.group(self._registry, group), accept, group)
            case ["apis", group, version]:
                body = discovery.resource_list(self._registry, group, version)
                route = method if group in _BUILTIN else ""
                return _told(body, accept, group, method=route)
            case _:
                return None

    def _paths(self) -> list[str]:
        """Return the paths that there are, for who begins at the root."""
        found = ["/api", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version"]
        for group, versions in self._registry.groups().items():
            root = f"/apis/{group}" if group else "/api"
            found += [root, *(f"{root}/{version}" for version in versions)]
        for one in PROBES:
            found += [f"/{one}", *(f"/{one}/{check}" for check in CHECKS)]
        return sorted(set(found))

    def _open(self, path: str, query: Query, accept: str, known: str) -> Document | None:
        """Return an OpenAPI document; clients keep them by their tags."""
        match path.removeprefix("/openapi/").split("/"):
            case ["v2"]:
                protobuf = "protobuf" in accept
                data = self._openapi.swagger_protobuf() if protobuf else self._openapi.swagger()
                media = _SWAGGER_PROTOBUF_TYPE if protobuf else JSON
                return _kept(data, media, _tag(data), known, {"Vary": "Accept"}, packed=True)
            case ["v3"]:
                data = self._openapi.index()
                return _kept(data, JSON, _tag(data), known, {})
            case ["v3", "api", version]:
                found = self._openapi.document("", version)
            case ["v3", "apis", group, version]:
                found = self._openapi.document(group, version)
            case ["v3", *_]:
                found = None
            case _:
                return None
        if found is None:
            return Document(b"", code=404)
        tag, asked = _tag(found), query.get("hash", "")
        headers = {"Vary": "Accept"}
        if asked and f'"{asked}"' != tag:
            place = f"{path}?hash={tag.strip(chr(34))}"
            text = f'<a href="{place}">Moved Permanently</a>.\n\n'
            return Document(
                text.encode(), "text/html; charset=utf-8", 301, {**headers, "Location": place}
            )
        if asked:
            # What the hash names never changes.
            expiry = clock.now().astimezone(UTC) + timedelta(days=365)
            headers["Cache-Control"] = "public, immutable"
            headers["Expires"] = _http_date(expiry)
        return _kept(found, JSON, tag, known, headers)


def _http_date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


def _tag(data: bytes) -> str:
    return f'"{hashlib.sha512(data).hexdigest().upper()}"'


def _kept(
    data: bytes,
    media: str,
    tag: str,
    known: str,
    headers: Mapping[str, str],
    *,
    packed: bool = False,
) -> Document:
    """Return a document, or that the client has it already."""
    headers = {**headers, "Etag": tag}
    if tag in {one.strip().removeprefix("W/") for one in known.split(",")} or known == "*":
        return Document(b"", code=304, headers=headers)
    return Document(data, media, headers={**headers, "Accept-Ranges": "bytes"}, packed=packed)


def _check_method(method: str) -> None:
    """Refuse to do anything with a route but to read it.

    Raises:
        StatusError: 405.
    """
    if method != "GET":
        raise method_not_allowed()


def _indented(body: Mapping[str, Any]) -> Document:
    return Document(msgspec.json.format(msgspec.json.encode(body), indent=2), JSON)


def _told(
    body: dict[str, Any] | None, accept: str, group: str = "", *, method: str = ""
) -> Document | None:
    """Return a document of discovery in the form that is wanted.

    Args:
        body: the document, if there is one.
        accept: the Accept header.
        group: what it is about; those of custom resources alone have no routes.
        method: of the request, where it counts.

    Raises:
        StatusError: 405; 406 when no form is spoken.
    """
    if body is None:
        return None
    if method:
        _check_method(method)
    if not group or group in _BUILTIN:
        check_route(accept, SPOKEN)
    media = negotiate_plain(accept)
    if media is None:
        raise not_acceptable(SPOKEN)
    return Document(render_document(body, media), media, pretty=True)
