"""Applies and deletes objects of any kind over HTTP, as kubectl does.

The path of a kind is found by asking the server, so it may be a kind that this program lacks.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from controller.client import Client
from controller.errors import Conflict, ControllerError, NotFound
from controller.meta import Key, Object, Untyped, Version
from controller.resource import Resource
from controller.transport import Transport

MANAGER = "butler-ipam"
"""The field manager of objects that are applied."""
TRIES = 20
"""How often a deletion is tried if the object changes meanwhile."""

Manifest = Mapping[str, Any]


NAMESPACE = Resource("", "v1", "Namespace", "namespaces", Untyped, namespaced=False)


class UnknownKind(ControllerError):
    """The server does not serve the kind of a manifest."""


async def discover_kind(transport: Transport, api_version: str, kind: str) -> Resource[Untyped]:
    """Return the resource of a kind: its path and scope, as the server serves it.

    Raises:
        UnknownKind: the server does not serve the kind.
        ControllerError: the server did not answer.
    """
    path_and_scope = await Client(transport).find_kind(api_version, kind)
    if path_and_scope is None:
        raise UnknownKind(f"the API server does not serve {api_version} {kind}")
    group, _, version = api_version.rpartition("/")
    plural, is_namespaced = path_and_scope
    return Resource(group, version, kind, plural, Untyped, namespaced=is_namespaced)


async def apply(transport: Transport, manifest: Manifest, namespace: str = "default") -> Untyped:
    """Apply a manifest server-side, in `namespace` if the manifest names no namespace.

    Raises:
        UnknownKind: the server does not serve its kind.
        ControllerError: the server rejected the manifest or did not answer.
    """
    resource = await discover_kind(transport, manifest["apiVersion"], manifest["kind"])
    meta = manifest["metadata"]
    own_namespace = (meta.get("namespace") or namespace) if resource.namespaced else ""
    key = Key(own_namespace, meta["name"])
    return await Client(transport).apply(resource, key, manifest, manager=MANAGER, force=True)


async def make_namespaces(transport: Transport, names: Iterable[str]) -> None:
    """Create the namespaces that do not exist yet."""
    for name in dict.fromkeys(names):
        body: Manifest = {"metadata": {"name": name}}
        await Client(transport).apply(NAMESPACE, Key("", name), body, manager=MANAGER, force=True)


async def delete(client: Client, resource: Resource[Any], key: Key) -> None:
    """Delete an object whatever its version, as `kubectl delete` does; do nothing if it is absent.

    A deletion names the version that was read. If a controller has written the object since, both
    the read and the deletion are repeated.

    Raises:
        Conflict: in each of TRIES tries, the object changed between the read and the deletion.
        ControllerError: the server rejected the deletion or did not answer.
    """
    for attempt in range(1, TRIES + 1):
        try:
            live: Object = await client.get(resource, key)
            await client.delete(resource, Version.from_object(live))
        except NotFound:
            return
        except Conflict:
            if attempt == TRIES:
                raise
        else:
            return
