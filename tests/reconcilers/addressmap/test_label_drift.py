"""`check` reports labels that drifted where the controllers repair them, and nowhere else."""

from itertools import product
from typing import Any

import pytest

from reconcilers.addressmap.audit import audit
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.poolpictures import draw_network_pools
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.networkpool.test_orphans import LABELS, OWNER, make_lab

NOTED_UIDS = {"no uid": None, "the uid": OWNER, "another uid": "uid-of-an-earlier-cluster"}
"""UIDs of TenantClusters that the annotation of the allocation may have noted."""

OWNERS: dict[str, Any] = {
    "no cluster": None,
    "the cluster": {},
    "the cluster, terminating": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
}
FOREIGN_MANAGER = {
    "type": "ForeignManager",
    "status": "True",
    "reason": "OtherWriter",
    "message": "another controller writes",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("noted_uid", "owner", "is_terminating", "has_other_manager"),
    [*product(NOTED_UIDS, OWNERS, (False, True), (False, True))],
)
async def test_label_drift_is_reported_if_and_only_if_a_sweep_repairs_it(
    noted_uid: str, owner: str, *, is_terminating: bool, has_other_manager: bool
) -> None:
    """The labels of an allocation differ from its TenantCluster's.

    Args:
        noted_uid: a key of NOTED_UIDS.
        owner: a key of OWNERS, the metadata of the TenantCluster.
        is_terminating: whether the allocation is.
        has_other_manager: whether another controller manages the pool of the allocation.
    """
    uid, cluster = NOTED_UIDS[noted_uid], OWNERS[owner]
    lab = make_lab(owner=make.tenant(**cluster) if cluster is not None else None)
    if has_other_manager:
        lab.server.edit("networkpools", "lab", {"status": {"conditions": [FOREIGN_MANAGER]}})
    meta: dict[str, Any] = {"annotations": {names.ANNOTATION_TENANT_UID: uid} if uid else {}}
    if is_terminating:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    drifted = LABELS | {names.LABEL_TEAM: "other"}
    allocation = make.allocation(
        "lb", labels=drifted, phase="Allocated", held_range=("10.40.0.0", "10.40.0.0"), **meta
    )
    lab.server.add("ipallocations", allocation)
    pools, allocations, clusters, _ = (
        {obj.metadata.key: obj for obj in cache} for cache in lab.caches.values()
    )
    objects = Objects(pools, allocations, clusters=clusters, providers={})
    reported = [finding.kind for finding in audit(objects, draw_network_pools(objects))]
    await lab.orphans.sweep()
    [stored] = lab.server.all("ipallocations")
    is_repaired = stored["metadata"]["labels"][names.LABEL_TEAM] == "team"
    assert ("LabelDrift" in reported) is is_repaired
