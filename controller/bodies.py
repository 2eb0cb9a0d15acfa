"""The bodies of writes: preconditions and defaults in them, and what responses to them mean."""

from collections.abc import Mapping
from typing import Any

from controller.meta import Version
from controller.resource import Resource


def precondition(at: Version) -> str:
    """Return the resourceVersion; raise if there is none: the server would check nothing."""
    if not at.resourceVersion or not at.uid:
        raise ValueError(f"{at.key} has no uid or resourceVersion to be a precondition")
    return at.resourceVersion


def pinning(pins: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the operations of a JSON patch that make `pins` preconditions.

    Rejected: `test`, whose failure is a 422 like that of invalid content, and no Conflict.
    """
    return [
        {"op": "replace", "path": f"/metadata/{name}", "value": value}
        for name, value in pins.items()
    ]


def with_metadata(body: Mapping[str, Any], pins: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of `body` with `pins` in its metadata."""
    return {**body, "metadata": {**(body.get("metadata") or {}), **pins}}


def with_defaults(
    resource: Resource[Any], body: Mapping[str, Any], metadata: Mapping[str, str]
) -> dict[str, Any]:
    """Return a copy of `body` with apiVersion, kind and `metadata` added if they are missing."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **body,
        "metadata": {**metadata, **(body.get("metadata") or {})},
    }


def still_exists(response: object) -> bool:
    """Whether the response to a deletion is an object that still exists.

    If the object was deleted the response is a Status or, for some built-in kinds, its last state.
    """
    if not isinstance(response, dict) or not isinstance(response.get("metadata"), dict):
        return False
    meta = response["metadata"]
    held = bool(meta.get("finalizers")) or bool(meta.get("deletionGracePeriodSeconds"))
    return response.get("kind") != "Status" and bool(meta.get("deletionTimestamp")) and held
