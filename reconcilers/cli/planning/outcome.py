"""The objects after a run of the controllers, in the form in which they are printed.

Metadata and spec come from the input, the status from the run. Parts of the status that depend on
objects that a plan does not read keep their values of the input: credentials, and the clusters of
tenants.

The *journal* of a pool is a part of its status. It has the ranges that are promised to requests,
and the *revisions*: resourceVersions up to which requests must have been read.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    OWN_KINDS,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import (
    INSTALLING,
    LOAD_BALANCER_READY,
    READY,
    TenantCluster,
)
from reconcilers.cli.planning.drafts import Draft, build_age_sort_key
from reconcilers.cli.planning.server import PlanServer
from reconcilers.cli.reading.manifests import UNBORN
from reconcilers.integrations.platformobjects import has_content, is_implied
from reconcilers.networkpool.statusjournal import JOURNAL_FIELDS, STATUS_JOURNALS
from reconcilers.promises.journal import Journal
from reconcilers.providerconfig.evaluation import CREDENTIALS_VALID
from reconcilers.reporting.conditions import READY as READY_CONDITION
from reconcilers.tenantcluster.status import RECONCILING, STALLED

T = TypeVar("T", bound=Object)
Body = Mapping[str, Any]
Name = tuple[str, Key]
"""An object: the full name of its kind, its namespace and name."""

_OVERALL = {READY_CONDITION, RECONCILING, STALLED}
"""The types of the conditions that summarize the other conditions."""


@dataclass(frozen=True, slots=True)
class PlannedObjects:
    """The objects after the run: those of our kinds decoded, oldest first, and all as printed.

    Args:
        created: the IPAllocations that the run created.
        bodies: the objects of our kinds, as they are printed.
        platform_bodies: the objects of other platforms, as they are printed.
        stored: the objects of other platforms, as the API server has them.
    """

    pools: Sequence[NetworkPool] = ()
    allocations: Sequence[IPAllocation] = ()
    tenants: Sequence[TenantCluster] = ()
    providers: Sequence[ProviderConfig] = ()
    created: Collection[Key] = ()
    bodies: Sequence[Body] = ()
    platform_bodies: Sequence[Body] = ()
    stored: Sequence[Body] = ()

    def find_pool(self, key: Key) -> NetworkPool | None:
        """Return the NetworkPool with a key; None if it does not exist."""
        return next((pool for pool in self.pools if pool.metadata.key == key), None)


def _list_bodies(
    server: PlanServer, drafts: Mapping[Name, Draft], kinds: Collection[Resource[Any]]
) -> list[Body]:
    """Return the objects of some kinds as they are printed.

    Objects of the input come first, in its order; then the objects that the run created.

    Args:
        server: has the objects.
        drafts: the objects of the input.
    """
    numbered: list[tuple[int, str, Body]] = []
    number_of_created = max((draft.number for draft in drafts.values()), default=0) + 1
    for kind in kinds:
        for body in server.api.list_objects(kind):
            draft = drafts.get((kind.full_name, _get_key(body)))
            if _decode(kind, body) is None or (draft is None and is_implied(kind)):
                continue  # it cannot be decoded, or the plan only assumed that it exists
            if draft is None or _is_created(draft, body):
                # The server counts uids, so they sort by creation.
                entry = (number_of_created, body["metadata"]["uid"], _strip_server_fields(body))
                numbered.append(entry)
            else:
                numbered.append((draft.number, "", _merge_status(draft, body)))
    return [body for *_, body in sorted(numbered, key=lambda entry: entry[:2])]


def collect_objects(server: PlanServer) -> PlannedObjects:
    """Return the objects that a run left on its API server."""
    drafts = {(draft.resource.full_name, draft.key): draft for draft in server.drafts}
    platforms = [kind for kind in server.kinds if kind not in OWN_KINDS.values()]
    created = {
        _get_key(body)
        for body in server.api.list_objects(IP_ALLOCATION)
        if (draft := drafts.get((IP_ALLOCATION.full_name, _get_key(body)))) is None
        or _is_created(draft, body)
    }
    tenants = _decode_all(server, TENANT_CLUSTER)
    return PlannedObjects(
        pools=_decode_all(server, NETWORK_POOL),
        allocations=_decode_all(server, IP_ALLOCATION),
        tenants=tenants,
        providers=_decode_all(server, PROVIDER_CONFIG),
        created=created,
        bodies=_list_bodies(server, drafts, OWN_KINDS.values()),
        platform_bodies=_list_bodies(server, drafts, platforms),
        stored=[body for kind in platforms for body in server.api.list_objects(kind)],
    )


def _decode_all(server: PlanServer, resource: Resource[T]) -> list[T]:
    """Return the objects of a kind that can be decoded: the oldest first, then by name."""
    decoded = (_decode(resource, body) for body in server.api.list_objects(resource))
    return sorted((obj for obj in decoded if obj is not None), key=build_age_sort_key)


def _get_key(body: Body) -> Key:
    """Return namespace and name of an object."""
    metadata = body["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


def _decode(resource: Resource[T], body: Body) -> T | None:
    """Return a stored object; None if it cannot be decoded, and so is not printed."""
    try:
        return msgspec.convert(body, resource.type)
    except msgspec.ValidationError:
        return None


def _is_created(draft: Draft, body: Body) -> bool:
    """Return whether the run deleted an object of the input and created one of the same name."""
    uid = draft.body["metadata"].get("uid")
    return bool(uid) and uid != body["metadata"]["uid"]


def _strip_server_fields(body: Body) -> Body:
    """Return an object that the run created, without the fields that a real server would set.

    If an annotation notes a uid that was made up for a cluster of the input, it is left out, too.
    """
    metadata = body["metadata"]
    hidden = ("uid", "resourceVersion", "generation", "creationTimestamp")
    annotations = {
        name: value
        for name, value in metadata.get("annotations", {}).items()
        if not (name == names.ANNOTATION_TENANT_UID and value.startswith(UNBORN))
    }
    rest = {
        name: value for name, value in metadata.items() if name not in {*hidden, "annotations"}
    }
    return {**body, "metadata": rest | ({"annotations": annotations} if annotations else {})}


def _merge_status(draft: Draft, body: Body) -> Body:
    """Return an object of the input as it is printed: with the status of the run.

    If the run leaves no status, the object has none. An empty status is replaced by that of the
    input.
    """
    printed = dict(draft.manifest)
    if has_content(draft.resource):  # the run may write the specs of these kinds
        printed["spec"] = body["spec"]
    before, status = printed.get("status") or {}, body.get("status")
    if status is None:
        printed.pop("status", None)
        return printed
    if draft.resource is NETWORK_POOL:
        status = _build_pool_status(draft, body)
    elif draft.resource is PROVIDER_CONFIG:
        status = _build_provider_status(before, status)
    elif draft.resource is TENANT_CLUSTER:
        status = _build_tenant_status(before, status)
    return {**printed, "status": status} if status else {**printed, "status": before}


def _build_pool_status(draft: Draft, body: Body) -> Body:
    """Return the status of a pool with the promises of the run.

    The journal keeps the revisions of the input: those of the run are numbers of the API server in
    memory. For the same reason, a pool without a journal in the input is printed without one.
    """
    printed = {name: value for name, value in body["status"].items() if name not in JOURNAL_FIELDS}
    if not JOURNAL_FIELDS.intersection(draft.manifest.get("status") or {}):
        return printed
    pool = msgspec.convert(draft.body, NETWORK_POOL.type)
    before = STATUS_JOURNALS.read(pool)
    after = STATUS_JOURNALS.read(msgspec.convert(body, NETWORK_POOL.type))
    journal = STATUS_JOURNALS.build_patch_fields(pool, Journal(before.revisions, after.promises))
    return printed | {name: value for name, value in journal.items() if value}


def _build_provider_status(before: Body, status: Body) -> Body:
    """Return the status of a ProviderConfig of the run.

    Fields and conditions that depend on credentials keep their values of the input, because a plan
    reads no credentials.
    """
    input_fields = {"validated", "ready", "lastValidationTime"}
    ready = _find_condition(status, READY_CONDITION)
    types = {CREDENTIALS_VALID}
    # A run whose Ready is False knows a fault apart from the credentials: that is printed.
    if ready is None or ready["status"] == "True":
        types.add(READY_CONDITION)
    printed = {name: value for name, value in status.items() if name not in input_fields}
    printed |= {name: before[name] for name in input_fields if name in before}
    return {**printed, "conditions": _replace_conditions(before, status, types)}


def _build_tenant_status(before: Body, status: Body) -> Body:
    """Return the status of a TenantCluster as it is printed.

    The run has no kubeconfigs, so it may report KubeconfigMissing. If the status in the input
    shows that the cluster had a kubeconfig, phase, LoadBalancerReady and the overall
    conditions are those of the input; the other fields are those of the run.

    Args:
        before: the status in the input.
        status: the status after the run.
    """
    had_kubeconfig = before.get("phase") in {READY, INSTALLING} or _find_condition(
        before, LOAD_BALANCER_READY
    )
    balancer = _find_condition(status, LOAD_BALANCER_READY)
    if not had_kubeconfig or balancer is None or balancer["reason"] != "KubeconfigMissing":
        return status
    input_fields = ("phase", "lastTransitionTime")
    printed = {name: value for name, value in status.items() if name not in input_fields}
    printed |= {name: before[name] for name in input_fields if name in before}
    input_types = {LOAD_BALANCER_READY, *_OVERALL}
    return {**printed, "conditions": _replace_conditions(before, status, input_types)}


def _find_condition(status: Body, condition_type: str) -> Body | None:
    """Return the condition of a type in a status; None if there is none."""
    conditions = status.get("conditions", ())
    return next(
        (condition for condition in conditions if condition["type"] == condition_type), None
    )


def _replace_conditions(before: Body, status: Body, types: Collection[str]) -> list[Body]:
    """Return the conditions of a status; those of some types are taken from the earlier status."""
    return [
        *_select_conditions(status, types, are_types_wanted=False),
        *_select_conditions(before, types, are_types_wanted=True),
    ]


def _select_conditions(
    status: Body, types: Collection[str], *, are_types_wanted: bool
) -> Iterator[Body]:
    """Yield conditions of a status, selected by their types.

    Args:
        are_types_wanted: True for the conditions with one of the types; False for all others.
    """
    for condition in status.get("conditions", ()):
        if (condition["type"] in types) is are_types_wanted:
            yield condition
