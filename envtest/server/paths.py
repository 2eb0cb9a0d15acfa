"""Paths that are no resources: health, version, discovery and OpenAPI."""

from collections.abc import Mapping

import msgspec

from envtest.server import discovery
from envtest.server.openapi import OpenApi
from envtest.server.registry import Registry

Found = tuple[bytes, str]

_HEALTH = ("healthz", "livez", "readyz")
# What a probe lists when it is asked to be verbose; each can be asked for alone.
_CHECKS = ("ping", "log", "etcd", "poststarthook/rbac/bootstrap-roles")
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"


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
                found = _encoded(discovery.VERSION)
            case ["api"] | ["apis"]:
                found = self._root(parts[0], accept)
            case ["api", version]:
                found = _encoded(discovery.resource_list(self._registry, "", version))
            case ["apis", group]:
                found = _encoded(discovery.group(self._registry, group))
            case ["apis", group, version]:
                found = _encoded(discovery.resource_list(self._registry, group, version))
            case ["openapi", *rest]:
                found = self._open(rest, accept)
            case _:
                found = None
        return found

    def _root(self, root: str, accept: str) -> Found:
        wanted = discovery.aggregated_type(accept)
        if wanted:
            version = "v2beta1" if "v=v2beta1" in wanted else "v2"
            body = discovery.aggregated(self._registry, core=root == "api", version=version)
            return msgspec.json.encode(body), wanted
        if root == "api":
            return msgspec.json.encode(discovery.core_versions(self._address)), _JSON
        return msgspec.json.encode(discovery.group_list(self._registry)), _JSON

    def _open(self, rest: list[str], accept: str) -> Found | None:
        match rest:
            case ["v2"] if "protobuf" in accept:
                return self._openapi.swagger_protobuf(), _SWAGGER_PROTOBUF_TYPE
            case ["v2"]:
                return self._openapi.swagger(), _JSON
            case ["v3"]:
                return self._openapi.index(), _JSON
            case ["v3", "api", version]:
                found = self._openapi.document("", version)
            case ["v3", "apis", group, version]:
                found = self._openapi.document(group, version)
            case _:
                return None
        return None if found is None else (found, _JSON)


def _probe(name: str, check: str, *, verbose: bool) -> Found | None:
    """Return what a probe says; a server that answers at all is well."""
    if check:
        return (b"ok", _TEXT) if check in _CHECKS else None
    if not verbose:
        return b"ok", _TEXT
    lines = [*(f"[+]{one} ok" for one in _CHECKS), f"{name} check passed", ""]
    return "\n".join(lines).encode(), _TEXT


def _encoded(body: Mapping[str, object] | None) -> Found | None:
    return None if body is None else (msgspec.json.encode(body), _JSON)
