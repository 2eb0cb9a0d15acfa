"""Paths that are no resources: health, version, discovery and OpenAPI."""

from typing import Any

import msgspec

from envtest.kinds.catalogue import resources
from envtest.server import discovery
from envtest.server.failures import not_acceptable
from envtest.server.forms import JSON, SPOKEN, check_route, negotiate_groups, negotiate_plain
from envtest.server.openapi import OpenApi
from envtest.server.registry import Registry
from envtest.server.rendering import render_document

Found = tuple[bytes, str]

_HEALTH = ("healthz", "livez", "readyz")
# What a probe lists when it is asked to be verbose; each can be asked for alone.
_CHECKS = ("ping", "log", "etcd", "poststarthook/rbac/bootstrap-roles")
_TEXT = "text/plain; charset=utf-8"
_BUILTIN = frozenset(name.rpartition("/")[0] for name in resources())
_AGGREGATED = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SWAGGER_PROTOBUF_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class Documents:
    """The documents of one server."""

    def __init__(self, registry: Registry, openapi: OpenApi, address: str) -> None:
        self._registry = registry
        self._openapi = openapi
        self._address = address

    def find(self, method: str, path: str, accept: str, *, verbose: bool = False) -> Found | None:
        """Return body and content type of a document, if there is one at a path.

        Args:
            method: of the request.
            path: of the request.
            accept: its Accept header.
            verbose: whether a probe shall list what it checks.
        """
        parts = [part for part in path.split("/") if part]
        if method not in {"GET", "HEAD"} and (not parts or parts[0] not in _HEALTH):
            return None
        match parts:
            case [one, *rest] if one in _HEALTH:
                found: Found | None = _probe(one, "/".join(rest), verbose=verbose)
            case ["version"]:
                found = msgspec.json.encode(discovery.VERSION), JSON
            case ["api"] | ["apis"]:
                found = self._root(parts[0], accept)
            case ["api", version]:
                found = _told(discovery.resource_list(self._registry, "", version), accept)
            case ["apis", group]:
                found = _told(discovery.group(self._registry, group), accept, group)
            case ["apis", group, version]:
                body = discovery.resource_list(self._registry, group, version)
                found = _told(body, accept, group)
            case ["openapi", *rest]:
                found = self._open(rest, accept)
            case _:
                found = None
        return found

    def _root(self, root: str, accept: str) -> Found | None:
        media = negotiate_groups(accept)
        if media:
            body = discovery.aggregated(self._registry, core=root == "api")
            return render_document(body, media), f"{media};{_AGGREGATED}"
        if root == "api":
            return _told(discovery.core_versions(self._address), accept)
        return _told(discovery.group_list(self._registry), accept)

    def _open(self, rest: list[str], accept: str) -> Found | None:
        match rest:
            case ["v2"] if "protobuf" in accept:
                return self._openapi.swagger_protobuf(), _SWAGGER_PROTOBUF_TYPE
            case ["v2"]:
                return self._openapi.swagger(), JSON
            case ["v3"]:
                return self._openapi.index(), JSON
            case ["v3", "api", version]:
                found = self._openapi.document("", version)
            case ["v3", "apis", group, version]:
                found = self._openapi.document(group, version)
            case _:
                return None
        return None if found is None else (found, JSON)


def _probe(name: str, check: str, *, verbose: bool) -> Found | None:
    """Return what a probe says; a server that answers at all is well."""
    if check:
        return (b"ok", _TEXT) if check in _CHECKS else None
    if not verbose:
        return b"ok", _TEXT
    lines = [*(f"[+]{one} ok" for one in _CHECKS), f"{name} check passed", ""]
    return "\n".join(lines).encode(), _TEXT


def _told(body: dict[str, Any] | None, accept: str, group: str = "") -> Found | None:
    """Return a document of discovery in the form that is wanted.

    Args:
        body: the document, if there is one.
        accept: the Accept header.
        group: what it is about; those of custom resources alone have no routes.

    Raises:
        StatusError: 406 when there is none.
    """
    if body is None:
        return None
    if not group or group in _BUILTIN:
        check_route(accept, SPOKEN)
    media = negotiate_plain(accept)
    if media is None:
        raise not_acceptable(SPOKEN)
    return render_document(body, media), media
