"""Paths that are no resources: probes, version, discovery and OpenAPI."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec

from envtest.server import discovery
from envtest.server.api import Api
from envtest.server.forms import JSON, negotiate
from envtest.server.openapi import OpenApi
from envtest.wire.query import Query

_TEXT = "text/plain; charset=utf-8"
_AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# kubectl validates a List against the second version of OpenAPI, and takes what is not in it for
# valid; the server validates each object. As protobuf: fields 1 (swagger) and 2 (info).
_SWAGGER = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": {}}
_SWAGGER_PROTOBUF = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.2"
_SWAGGER_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROBES = ("healthz", "livez", "readyz")
# What a probe lists when it is asked to be verbose.
_CHECKS = ("ping", "log", "etcd", "poststarthook/rbac/bootstrap-roles")
_ROOTS = ("/api", "/api/", "/apis", "/apis/")


class Document(msgspec.Struct, frozen=True):
    """An answer that is no object of the API.

    Args:
        media: their type; nothing where there are none.
        code: its status.
        headers: that it has on top of those of every answer, or instead of them.
    """

    data: bytes
    media: str = ""
    code: int = 200
    headers: Mapping[str, str] = {}


class Documents:
    """The documents of one server.

    Args:
        api: the state behind it.
        openapi: the OpenAPI documents.
    """

    def __init__(self, api: Api, openapi: OpenApi) -> None:
        self._registry = api.registry
        self._openapi = openapi

    def find(
        self, path: str, query: Query, headers: Mapping[str, str], address: str
    ) -> Document | None:
        """Return a document, if there is one at a path.

        Args:
            path: of the request.
            query: of the request.
            headers: of the request; what is accepted and already known counts.
            address: by which the client reaches the server.

        Raises:
            StatusError: 406.
        """
        accept, known = headers.get("Accept", ""), headers.get("If-None-Match", "")
        answer = _probe(path, verbose="verbose" in query)
        if answer is not None:
            return Document(answer, _TEXT)
        if path.startswith("/openapi/"):
            return self._open(path, query, accept=accept, known=known)
        if path in _ROOTS:
            return self._root(path.strip("/"), accept, known=known, address=address)
        body = self._below(path)
        if body is None:
            return None
        negotiate(accept, "object")
        return Document(msgspec.json.encode(body), JSON)

    def _root(self, root: str, accept: str, known: str, address: str) -> Document:
        """Return the groups, or all that they have at once."""
        if negotiate(accept, "groups", "object") == "object":
            index = (
                discovery.core_versions(address)
                if root == "api"
                else discovery.group_list(self._registry)
            )
            return Document(msgspec.json.encode(index), JSON)
        data = msgspec.json.encode(discovery.aggregate_groups(self._registry, core=root == "api"))
        headers = {"Vary": "Accept", "Cache-Control": "public"}
        return _tag_document(data, _AGGREGATED, known=known, headers=headers)

    def _below(self, path: str) -> Mapping[str, Any] | None:
        """Return the discovery document of one group or version, or of the server."""
        match path.strip("/").split("/"):
            case [""]:
                return {"paths": self._paths()}
            case ["version"]:
                return discovery.VERSION
            case ["api", version]:
                return discovery.resource_list(self._registry, "", version)
            case ["apis", group]:
                return discovery.group(self._registry, group)
            case ["apis", group, version]:
                return discovery.resource_list(self._registry, group, version)
            case _:
                return None

    def _paths(self) -> list[str]:
        """Return the list of paths, the answer to GET /."""
        paths = {
            "/api",
            "/apis",
            "/openapi/v2",
            "/openapi/v3",
            "/version",
            *(f"/{name}" for name in _PROBES),
        }
        for group, versions in self._registry.groups().items():
            root = f"/apis/{group}" if group else "/api"
            paths |= {root, *(f"{root}/{version}" for version in versions)}
        return sorted(paths)

    def _open(self, path: str, query: Query, accept: str, known: str) -> Document | None:
        """Return an OpenAPI document; clients keep them by their tags."""
        match path.removeprefix("/openapi/").strip("/").split("/"):
            case ["v2"]:
                if "protobuf" in accept:
                    return Document(_SWAGGER_PROTOBUF, _SWAGGER_TYPE)
                return Document(msgspec.json.encode(_SWAGGER), JSON)
            case ["v3"]:
                return _tag_document(self._openapi.index(), JSON, known=known, headers={})
            case ["v3", "api", version]:
                document = self._openapi.document("", version)
            case ["v3", "apis", group, version]:
                document = self._openapi.document(group, version)
            case _:
                document = None
        if document is None:
            return None
        headers = {"Vary": "Accept"}
        if query.get("hash"):
            # What the hash names never changes.
            expiry = datetime.now(UTC) + timedelta(days=365)
            headers["Cache-Control"] = "public, immutable"
            headers["Expires"] = format_datetime(expiry, usegmt=True)
        return _tag_document(document, JSON, known=known, headers=headers)


def _tag_document(data: bytes, media: str, known: str, headers: Mapping[str, str]) -> Document:
    """Return a document with an ETag; 304 without a body if the client has this version."""
    tag = f'"{hashlib.sha512(data).hexdigest().upper()}"'
    headers = {**headers, "ETag": tag}
    if tag in {entry.strip().removeprefix("W/") for entry in known.split(",")}:
        return Document(b"", code=304, headers=headers)
    return Document(data, media, headers=headers)


def _probe(path: str, *, verbose: bool = False) -> bytes | None:
    """Return the answer of a probe; None where there is no such probe.

    Args:
        path: of the request.
        verbose: whether to list the checks.
    """
    name = path.removeprefix("/")
    if name not in _PROBES:
        return None
    if not verbose:
        return b"ok"
    lines = [f"[+]{check} ok" for check in _CHECKS]
    return "\n".join([*lines, f"{name} check passed", ""]).encode()
