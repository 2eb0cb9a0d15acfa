"""Questions to an API server's discovery documents: which kinds it serves.

The documents are those of a server without aggregated discovery, which all versions have.
"""

from typing import TYPE_CHECKING, Any

from controller.codec import decode_json
from controller.errors import MalformedAnswer, NotFound
from controller.resource import Resource

if TYPE_CHECKING:  # a client that is given its transport does not need to load aiohttp
    from controller.transport import Transport


async def served(transport: "Transport", resource: Resource[Any]) -> bool:
    """Return whether a server's documents list the kind `resource`.

    Raises:
        ControllerError: discovery failed, so the answer is not known.
    """
    if resource.group:
        groups = await _entries(transport, "/apis", "APIGroupList", "groups")
        versions = [
            version.get("groupVersion")
            for group in groups
            if group.get("name") == resource.group
            for version in group.get("versions") or ()
        ]
        if resource.api_version not in versions:
            return False
    kinds = await _kinds(transport, resource.api_version)
    return any(kind.get("name") == resource.plural for kind in kinds)


async def find_kind(
    transport: "Transport", api_version: str, kind: str
) -> tuple[str, bool] | None:
    """Return a kind's plural and whether it is namespaced; None if it is not served.

    Args:
        transport: the server.
        api_version: for example `apps/v1`.
        kind: for example `Deployment`.

    Raises:
        ControllerError: discovery failed, so the answer is not known.
    """
    try:
        kinds = await _kinds(transport, api_version)
    except NotFound:
        return None
    for one in kinds:
        if one.get("kind") == kind and "/" not in str(one.get("name")):
            return str(one.get("name")), bool(one.get("namespaced"))
    return None


async def _kinds(transport: "Transport", api_version: str) -> list[dict[str, Any]]:
    """Return the kinds of an API version, with their subresources."""
    root = "/apis" if "/" in api_version else "/api"
    return await _entries(transport, f"{root}/{api_version}", "APIResourceList", "resources")


async def _entries(
    transport: "Transport", path: str, kind: str, field: str
) -> list[dict[str, Any]]:
    """Return the entries of one document."""
    document = decode_json(await transport.request("GET", path))
    entries = document.get(field) if isinstance(document, dict) else None
    if not isinstance(entries, list) or document.get("kind") != kind:
        raise MalformedAnswer(f"GET {path}: the answer is no {kind}")
    return [entry for entry in entries if isinstance(entry, dict)]
