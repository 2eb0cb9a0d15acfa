"""The objects of the input as the API server of a plan stores them.

Requests have the finalizer of their controller from the beginning, so a pass over a pool sees all
that wait for it. What other controllers of a platform would fill in is filled in.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    OWN_KINDS,
    TENANT_CLUSTER,
)
from reconcilers.cli.reading.manifests import Manifests, ReadManifest, is_stored
from reconcilers.configuration.integrationnames import CLUSTER_API, INTEGRATIONS
from reconcilers.integrations import platformobjects
from reconcilers.networkpool.claims import find_entry
from reconcilers.networkpool.statusjournal import JOURNAL_FIELDS
from reconcilers.promises.journal import ANNOTATION

Body = dict[str, Any]

HELD = f"{names.GROUP}/planned"
"""The finalizer of objects that are being deleted: a plan does not foresee that they are gone."""
FINALIZERS: Mapping[str, str] = {
    NETWORK_POOL.full_name: names.FINALIZER_POOL,
    IP_ALLOCATION.full_name: names.FINALIZER_ALLOCATION,
    TENANT_CLUSTER.full_name: names.FINALIZER_TENANT,
}
"""By kind of ours: the finalizer that its controller adds."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An object of the input, as it is stored.

    Args:
        resource: its kind.
        key: its namespace and name.
        manifest: the manifest, as it is printed.
        body: the object, with what a server fills in.
        number: its place in the output.
    """

    resource: Resource[Any]
    key: Key
    manifest: Mapping[str, Any]
    body: Body
    number: int

    @property
    def asks_later(self) -> bool:
        """Whether it is a TenantCluster, which asks once all requests were served."""
        return self.resource is TENANT_CLUSTER

    @property
    def is_stored(self) -> bool:
        """Whether it comes from a cluster, by its resourceVersion."""
        return is_stored(self.body["metadata"])

    @property
    def lacks_journal(self) -> bool:
        """Whether it is a pool that a cluster is not known to have had, without a journal."""
        is_pool = self.resource is NETWORK_POOL or platformobjects.is_fenced_pool(self.resource)
        if not is_pool or self.is_stored:
            return False
        metadata, status = self.body["metadata"], self.body.get("status") or {}
        return (
            not metadata.get("deletionTimestamp")
            and ANNOTATION not in (metadata.get("annotations") or {})
            and not JOURNAL_FIELDS.intersection(status)
        )


def find_integrations(manifests: Manifests) -> tuple[str, ...]:
    """Return the platforms of which the input has objects, or a NetworkPool has promises."""
    integrations = platformobjects.find_platform_names(manifests.others)
    if any(_promises_to_claims(manifest.object) for manifest in manifests.pools):
        integrations = integrations | {CLUSTER_API}
    return tuple(name for name in INTEGRATIONS if name in integrations)


def _promises_to_claims(pool: NetworkPool) -> bool:
    """Return whether the journal of a NetworkPool has an entry for claims."""
    return find_entry(pool) is not None


def list_drafts(
    manifests: Manifests, integrations: Sequence[str], namespace: str, now: datetime
) -> list[Draft]:
    """Return the objects of the input, in its order; those of other platforms come last.

    Args:
        manifests: the input.
        integrations: the platforms of which it has objects.
        namespace: of objects that name none.
        now: when objects were created that do not say.
    """
    return [
        *_ours(manifests),
        *_of_platforms(manifests, integrations, namespace=namespace, now=now),
    ]


def _ours(manifests: Manifests) -> Iterator[Draft]:
    """Yield the objects of our kinds, in the order of the input; then the unreadable ones."""
    for manifest in manifests.every():
        resource = OWN_KINDS[str(manifest.body["kind"])]
        body = _with_finalizer({**manifest.body, "metadata": _metadata(manifest)}, resource)
        yield Draft(
            resource, manifest.key, manifest=manifest.body, body=body, number=manifest.number
        )
    number = _last_number(manifests)
    for at, ((kind, key), stored) in enumerate(manifests.unreadable_bodies.items(), number + 1):
        yield Draft(OWN_KINDS[kind], key, manifest=stored, body=stored, number=at)


def _last_number(manifests: Manifests) -> int:
    """Return the place of the last readable object of our kinds in the input."""
    return max((manifest.number for manifest in manifests.every()), default=0)


def _metadata(manifest: ReadManifest[Any]) -> Body:
    """Return the metadata of a manifest as a server has it; a version only if it was given."""
    version = manifest.body["metadata"].get("resourceVersion")
    filled = {n: value for n, value in manifest.metadata.items() if n != "resourceVersion"}
    return filled | ({"resourceVersion": version} if version else {})


def _of_platforms(
    manifests: Manifests, integrations: Sequence[str], namespace: str, now: datetime
) -> Iterator[Draft]:
    """Yield the objects of other platforms, in the order of the input."""
    number = _last_number(manifests) + len(manifests.unreadable_bodies)
    for at, manifest in enumerate(manifests.others, 1):
        resource = platformobjects.resource_of(manifest, integrations)
        meta = {
            n: value for n, value in (manifest.get("metadata") or {}).items() if value is not None
        }
        if not isinstance(meta.get("name"), str) or not meta["name"]:
            continue
        own = str(meta.get("namespace") or namespace) if resource.namespaced else ""
        placed = {**meta, "namespace": own} if own else meta
        created = (now + timedelta(microseconds=number + at)).isoformat()
        filled = {"creationTimestamp": created, **placed}
        if not is_stored(filled):
            filled.pop("resourceVersion", None)
        body = _with_finalizer(
            {**platformobjects.fill_defaults(manifest), "metadata": filled}, resource
        )
        printed = {**manifest, "metadata": placed}
        yield Draft(
            resource, Key(own, meta["name"]), manifest=printed, body=body, number=number + at
        )


def _with_finalizer(body: Body, resource: Resource[Any]) -> Body:
    """Return an object with the finalizer of its controller, or the one that keeps it."""
    metadata = body["metadata"]
    finalizers = metadata.get("finalizers") or ()
    if not isinstance(finalizers, list | tuple):
        return body  # it cannot be decoded
    if metadata.get("deletionTimestamp"):
        finalizer: str | None = HELD
    else:
        own = FINALIZERS.get(resource.full_name)
        finalizer = own or platformobjects.find_finalizer(resource)
    if finalizer is None or finalizer in finalizers:
        return body
    return {**body, "metadata": {**metadata, "finalizers": [*finalizers, finalizer]}}


def age(obj: Object) -> tuple[datetime, Key]:
    """Return when an object was created, with its name as tie-break."""
    created = obj.metadata.creationTimestamp
    assert created is not None, "the server fills it in"
    return created, obj.metadata.key
