"""The objects of the input as the API server of a plan stores them.

Requests get the finalizer of their controller at once, so the first pass over a pool reads all of
them. Fields that other controllers of a platform would write are written here.
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

HOLDING_FINALIZER = f"{names.GROUP}/planned"
"""A finalizer for objects that are being deleted: a plan does not assume that they are gone."""
FINALIZERS: Mapping[str, str] = {
    NETWORK_POOL.full_name: names.FINALIZER_POOL,
    IP_ALLOCATION.full_name: names.FINALIZER_ALLOCATION,
    TENANT_CLUSTER.full_name: names.FINALIZER_TENANT,
}
"""The finalizer that the controller of each of our kinds adds."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An object of the input, as it is stored and as it is printed.

    Args:
        manifest: the object as it is printed.
        body: the object as it is stored, with the fields that a server sets.
        number: its place in the output.
    """

    resource: Resource[Any]
    key: Key
    manifest: Mapping[str, Any]
    body: Body
    number: int

    @property
    def is_tenant_cluster(self) -> bool:
        """Whether it is a TenantCluster: these are stored after all requests were served."""
        return self.resource is TENANT_CLUSTER

    @property
    def is_stored(self) -> bool:
        """Whether the object comes from a cluster, by its resourceVersion."""
        return is_stored(self.body["metadata"])

    @property
    def lacks_journal(self) -> bool:
        """Whether it is a new pool, which has no journal of its promises yet."""
        is_pool = self.resource is NETWORK_POOL or platformobjects.is_fenced_pool(self.resource)
        if not is_pool or self.is_stored:
            # A pool of a cluster may have lost its journal: the controllers of the plan have to
            # void its promises, as those of the cluster would.
            return False
        metadata, status = self.body["metadata"], self.body.get("status") or {}
        return (
            not metadata.get("deletionTimestamp")
            and ANNOTATION not in (metadata.get("annotations") or {})
            and not JOURNAL_FIELDS.intersection(status)
        )


def find_integrations(manifests: Manifests) -> tuple[str, ...]:
    """Return the integrations that the input needs.

    They are the platforms of its objects, and Cluster API if a NetworkPool has promised ranges to
    claims.
    """
    integrations = platformobjects.find_platform_names(manifests.others)
    if any(_has_promises_to_claims(manifest.object) for manifest in manifests.pools):
        integrations = integrations | {CLUSTER_API}
    return tuple(name for name in INTEGRATIONS if name in integrations)


def _has_promises_to_claims(pool: NetworkPool) -> bool:
    """Return whether the journal of a NetworkPool has an entry for claims."""
    return find_entry(pool) is not None


def list_drafts(
    manifests: Manifests, integrations: Sequence[str], namespace: str, now: datetime
) -> list[Draft]:
    """Return the objects of the input, in its order; those of other platforms come last.

    Args:
        manifests: the input.
        integrations: the platforms of which it has objects.
        namespace: the namespace of objects that have none.
        now: the creationTimestamp of objects that have none.
    """
    return [
        *_list_our_drafts(manifests),
        *_list_platform_drafts(manifests, integrations, namespace=namespace, now=now),
    ]


def _list_our_drafts(manifests: Manifests) -> Iterator[Draft]:
    """Yield the objects of our kinds, in the order of the input; then the unreadable ones."""
    for manifest in manifests.list_own():
        resource = OWN_KINDS[str(manifest.body["kind"])]
        body = _add_finalizer({**manifest.body, "metadata": _build_metadata(manifest)}, resource)
        yield Draft(
            resource, manifest.key, manifest=manifest.body, body=body, number=manifest.number
        )
    first_number = _find_last_number(manifests) + 1
    unreadable_bodies = manifests.unreadable_bodies.items()
    for number, ((kind, key), stored) in enumerate(unreadable_bodies, first_number):
        yield Draft(OWN_KINDS[kind], key, manifest=stored, body=stored, number=number)


def _find_last_number(manifests: Manifests) -> int:
    """Return the number of the last readable object of our kinds in the input."""
    return max((manifest.number for manifest in manifests.list_own()), default=0)


def _build_metadata(manifest: ReadManifest[Any]) -> Body:
    """Return the metadata of a manifest with the fields that a server sets.

    The resourceVersion is kept only if the input has it: the server assigns others.
    """
    version = manifest.body["metadata"].get("resourceVersion")
    filled = {
        name: value for name, value in manifest.metadata.items() if name != "resourceVersion"
    }
    return filled | ({"resourceVersion": version} if version else {})


def _list_platform_drafts(
    manifests: Manifests, integrations: Sequence[str], namespace: str, now: datetime
) -> Iterator[Draft]:
    """Yield the objects of other platforms, in the order of the input."""
    number = _find_last_number(manifests) + len(manifests.unreadable_bodies)
    for offset, manifest in enumerate(manifests.others, 1):
        resource = platformobjects.get_resource(manifest, integrations)
        meta = {
            name: value
            for name, value in (manifest.get("metadata") or {}).items()
            if value is not None
        }
        if not isinstance(meta.get("name"), str) or not meta["name"]:
            continue  # a server would reject it, and nothing can refer to it
        own_namespace = str(meta.get("namespace") or namespace) if resource.namespaced else ""
        placed = {**meta, "namespace": own_namespace} if own_namespace else meta
        # An object counts as created after all objects before it in the input.
        created = (now + timedelta(microseconds=number + offset)).isoformat()
        filled = {"creationTimestamp": created, **placed}
        if not is_stored(filled):
            filled.pop("resourceVersion", None)
        body = _add_finalizer(
            {**platformobjects.fill_defaults(manifest), "metadata": filled}, resource
        )
        printed = {**manifest, "metadata": placed}
        yield Draft(
            resource,
            Key(own_namespace, meta["name"]),
            manifest=printed,
            body=body,
            number=number + offset,
        )


def _add_finalizer(body: Body, resource: Resource[Any]) -> Body:
    """Return an object with the finalizer of its controller; if it is being deleted, with HELD.

    It is returned unchanged if its kind has no finalizer, or its finalizers cannot be decoded.
    """
    metadata = body["metadata"]
    finalizers = metadata.get("finalizers") or ()
    if not isinstance(finalizers, list | tuple):
        return body  # the object cannot be decoded, so no controller adds a finalizer
    if metadata.get("deletionTimestamp"):
        finalizer: str | None = HOLDING_FINALIZER
    else:
        finalizer = FINALIZERS.get(resource.full_name) or platformobjects.find_finalizer(resource)
    if finalizer is None or finalizer in finalizers:
        return body
    return {**body, "metadata": {**metadata, "finalizers": [*finalizers, finalizer]}}


def build_age_sort_key(obj: Object) -> tuple[datetime, Key]:
    """Return the sort key of an object: time of creation, then name."""
    created = obj.metadata.creationTimestamp
    assert created is not None, "the server sets it"
    return created, obj.metadata.key
