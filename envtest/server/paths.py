"""Paths that are no resources: probes, version, discovery and OpenAPI."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec

from envtest.server import discovery
from envtest.server.api import Api
from envtest.server.forms import JSON, negotiate_form
from envtest.server.openapi import OpenApi
from envtest.wire.query import Query

_TEXT = "text/plain; charset=utf-8"
_AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# kubectl validates a List against OpenAPI v2, and accepts kinds that the document does not have.
# So an empty document is enough, as the server validates each object of the List.
_SWAGGER = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": {}}
# The same in protobuf: fields 1 (swagger) and 2 (info).
_SWAGGER_PROTOBUF = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.2"
_SWAGGER_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROBES = ("healthz", "livez", "readyz")
# The checks that a verbose answer of a probe lists.
_CHECKS = ("ping", "log", "etcd", "poststarthook/rbac/bootstrap-roles")
_ROOTS = ("/api", "/api/", "/apis", "/apis/")


class Document(msgspec.Struct, frozen=True):
    """An answer that is no object of the API.

    Args:
        data: the body.
        media: the Content-Type; empty if there is no body.
        code: the HTTP status.
        headers: headers that are added to those of every answer, or replace them.
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
        """Return the document at a path; None if there is none.

        Args:
            path: the path of the request.
            query: the query of the request.
            headers: the headers of the request, of which Accept and If-None-Match are used.
            address: the address by which the client reaches the server.

        Raises:
            StatusError: 406 if the client accepts no form of the document.
        """
        accept, known_etags = headers.get("Accept", ""), headers.get("If-None-Match", "")
        answer = _answer_probe(path, verbose="verbose" in query)
        if answer is not None:
            return Document(answer, _TEXT)
        if path.startswith("/openapi/"):
            return self._find_openapi(path, query, accept=accept, known_etags=known_etags)
        if path in _ROOTS:
            root = path.strip("/")
            return self._build_root(root, accept, known_etags=known_etags, address=address)
        body = self._find_discovery(path)
        if body is None:
            return None
        # Called for its 406 if the client does not accept JSON.
        negotiate_form(accept, "object")
        return Document(msgspec.json.encode(body), JSON)

    def _build_root(self, root: str, accept: str, known_etags: str, address: str) -> Document:
        """Return the answer to /api or /apis: the groups, or aggregated discovery if accepted."""
        if negotiate_form(accept, "groups", "object") == "object":
            index = (
                discovery.build_core_versions(address)
                if root == "api"
                else discovery.build_group_list(self._registry)
            )
            return Document(msgspec.json.encode(index), JSON)
        data = msgspec.json.encode(
            discovery.build_aggregated_discovery(self._registry, core=root == "api")
        )
        headers = {"Vary": "Accept", "Cache-Control": "public"}
        return _tag_document(data, _AGGREGATED, known_etags=known_etags, headers=headers)

    def _find_discovery(self, path: str) -> Mapping[str, Any] | None:
        """Return the document of a group or group version, of /version or /; None for others."""
        match path.strip("/").split("/"):
            case [""]:
                return {"paths": self._list_paths()}
            case ["version"]:
                return discovery.VERSION
            case ["api", version]:
                return discovery.build_resource_list(self._registry, "", version)
            case ["apis", group]:
                return discovery.build_group(self._registry, group)
            case ["apis", group, version]:
                return discovery.build_resource_list(self._registry, group, version)
            case _:
                return None

    def _list_paths(self) -> list[str]:
        """Return the list of paths, the answer to GET /."""
        paths = {
            "/api",
            "/apis",
            "/openapi/v2",
            "/openapi/v3",
            "/version",
            *(f"/{name}" for name in _PROBES),
        }
        for group, versions in self._registry.list_groups().items():
            root = f"/apis/{group}" if group else "/api"
            paths |= {root, *(f"{root}/{version}" for version in versions)}
        return sorted(paths)

    def _find_openapi(
        self, path: str, query: Query, accept: str, known_etags: str
    ) -> Document | None:
        """Return an OpenAPI document; None if there is none at the path.

        Args:
            path: the path of the request.
            query: the query of the request.
            accept: the Accept header.
            known_etags: the If-None-Match header: ETags of the versions that the client has.
        """
        match path.removeprefix("/openapi/").strip("/").split("/"):
            case ["v2"]:
                if "protobuf" in accept:
                    return Document(_SWAGGER_PROTOBUF, _SWAGGER_TYPE)
                return Document(msgspec.json.encode(_SWAGGER), JSON)
            case ["v3"]:
                index = self._openapi.build_index()
                return _tag_document(index, JSON, known_etags=known_etags, headers={})
            case ["v3", "api", version]:
                document = self._openapi.get_document("", version)
            case ["v3", "apis", group, version]:
                document = self._openapi.get_document(group, version)
            case _:
                document = None
        if document is None:
            return None
        headers = {"Vary": "Accept"}
        if query.get("hash"):
            # The content for a hash never changes, so clients may keep it.
            expiry = datetime.now(UTC) + timedelta(days=365)
            headers["Cache-Control"] = "public, immutable"
            headers["Expires"] = format_datetime(expiry, usegmt=True)
        return _tag_document(document, JSON, known_etags=known_etags, headers=headers)


def _tag_document(
    data: bytes, media: str, known_etags: str, headers: Mapping[str, str]
) -> Document:
    """Return a document with an ETag; 304 without a body if the client has this version."""
    tag = f'"{hashlib.sha512(data).hexdigest().upper()}"'
    headers = {**headers, "ETag": tag}
    if tag in {entry.strip().removeprefix("W/") for entry in known_etags.split(",")}:
        return Document(b"", code=304, headers=headers)
    return Document(data, media, headers=headers)


def _answer_probe(path: str, *, verbose: bool = False) -> bytes | None:
    """Return the answer of a health probe; None if the path is no probe.

    Probes always succeed, because a server that answers is healthy. A verbose answer lists checks.
    """
    name = path.removeprefix("/")
    if name not in _PROBES:
        return None
    if not verbose:
        return b"ok"
    lines = [f"[+]{check} ok" for check in _CHECKS]
    return "\n".join([*lines, f"{name} check passed", ""]).encode()
