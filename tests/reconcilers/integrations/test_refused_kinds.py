"""What is shown and reported of other platforms to a user who may not read one of their kinds."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.client import Client
from controller.errors import Forbidden
from controller.resource import Resource
from controller.testing import Request
from reconcilers.addressmap.objects import Objects, read_objects
from reconcilers.addressmap.poolpictures import draw_pools
from reconcilers.api.resources import NETWORK_POOL, TENANT_CLUSTER
from reconcilers.health.report import list_check_findings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.poolkinds import get_holder_kinds, list_pool_kinds
from reconcilers.pictures.documents import build_map_document
from tests.clock import VirtualClock
from tests.reconcilers.cli import test_claims as claims
from tests.reconcilers.cli import test_platforms as platforms
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.ui.cluster import KINDS, PLATFORMS, Cluster

CLUSTERS = clusterapi.get_cluster_kind("v1beta2")
KINDS[CLUSTERS.group, CLUSTERS.kind] = CLUSTERS
REFUSED = {
    kind.full_name: kind
    for kind in (*PLATFORMS, CLUSTERS, NETWORK_POOL)
    if kind.plural != "prefixes"
}
LABELS = {clusterapi.CLUSTER_LABEL: "machines"}
STATUS = {"addressRef": {"name": "web"}}
NETWORK_POOL_SITE = make_pool("site", "10.9.0.0/29")
NETWORK_POOL_SITE["metadata"]["namespace"] = "b"
LB_STATUS = {"addressRef": {"name": "lb"}}
OBJECTS = (
    NETWORK_POOL_SITE,
    claims.make_saved_object("Cluster", "machines", {})
    | {"apiVersion": f"{CLUSTERS.group}/v1beta2"},
    claims.make_ip_pool("nodes", "10.0.0.10-10.0.0.12")
    | {"status": {"ipAddresses": {"total": 3, "used": 1, "free": 2, "outOfRange": 0}}},
    claims.make_claim("web", "nodes", metadata={"labels": LABELS}, status=STATUS),
    claims.make_address("web", "nodes", "10.0.0.11", metadata={"labels": LABELS}),
    claims.make_claim("lb", "site", "NetworkPool", status=LB_STATUS),
    claims.make_address("lb", "site", ip="10.9.0.2", kind="NetworkPool"),
    platforms.make_ipam_pool("metallb", east={**platforms.RANGE, "poolCidr": "10.1.0.0/29"}),
    platforms.make_kkp_cluster("blue", "east"),
    platforms.make_ipam_allocation("metallb", "blue", "east", addresses=["10.1.0.0-10.1.0.3"]),
    platforms.make_network(),
    platforms.make_vitistack_request("net-web", "10.3.0.11"),
    platforms.VM,
)
"""Objects of all platforms, without faults."""
SHOWN = ["NetworkPool", "InClusterIPPool", "IPAMPool", "NetworkNamespace"]
"""The kinds of pools that a user who may read everything is shown, in that order."""


async def read_objects_without(refused: Resource[Any] | None, *more: Any) -> Objects:
    """Read the objects of a cluster as a user who may not list one kind.

    Args:
        refused: the kind that the user may not list; None if there is none.
        *more: further objects beside OBJECTS.
    """
    cluster = Cluster(VirtualClock())
    cluster.serve_platforms(*PLATFORMS, CLUSTERS)
    bodies = [dict(body) for body in (*OBJECTS, *more)]
    for body in bodies:
        if body["kind"] == "IPAddress":
            finalizers = [clusterapi.ADDRESS_FINALIZER]
            body["metadata"] = {**body["metadata"], "finalizers": finalizers}
    await cluster.create(*bodies)

    def refuse(request: Request) -> None:
        if refused is not None and request.resource == refused.full_name:
            raise Forbidden(403, "Forbidden", request.resource)

    cluster.on_request = refuse
    return await read_objects(Client(cluster), required=(TENANT_CLUSTER,))


async def test_nothing_is_wrong_for_a_user_who_may_read_everything() -> None:
    objects = await read_objects_without(None)
    assert objects.all_not_read == ()
    assert list_check_findings(objects, datetime.now(UTC)) == []
    assert [pool_picture.name.kind for pool_picture in draw_pools(objects)] == SHOWN


@pytest.mark.parametrize("kind", REFUSED)
async def test_no_object_of_a_kind_that_may_not_be_listed_is_reported_as_missing(
    kind: str,
) -> None:
    objects = await read_objects_without(REFUSED[kind])
    assert [limit.kind for limit in objects.all_not_read] == [kind]
    assert list_check_findings(objects, datetime.now(UTC)) == []


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_pool_is_shown_without_figures_if_a_kind_of_its_holders_may_not_be_listed(
    kind: str,
) -> None:
    pictures = draw_pools(await read_objects_without(REFUSED[kind]))
    hidden = REFUSED[kind].kind if REFUSED[kind] in list_pool_kinds() else ""
    assert [picture.name.kind for picture in pictures] == [
        kind_name for kind_name in SHOWN if kind_name != hidden
    ]
    for picture in pictures:
        holders_are_read = kind not in get_holder_kinds()[picture.name.kind]
        assert picture.figures.is_known is holders_are_read
        document = build_map_document(picture)
        assert (document["waiting"], document["requests"]) == (
            (0, []) if holders_are_read else (None, [])
        )


@pytest.mark.parametrize("kind", [None, *list_pool_kinds()], ids=str)
async def test_a_finding_about_an_overlap_mentions_that_some_pools_were_not_compared(
    kind: Resource[Any] | None,
) -> None:
    objects = await read_objects_without(
        kind,
        make_pool("one", "10.60.0.0/29"),
        make_pool("two", "10.60.0.0/29"),
        claims.make_ip_pool("three", "10.70.0.8-10.70.0.9"),
        claims.make_ip_pool("four", "10.70.0.9"),
    )
    overlaps = [
        finding.sentence
        for finding in list_check_findings(objects, datetime.now(UTC))
        if finding.kind == "PoolsOverlap"
    ]
    assert overlaps
    limit = "; pools that were not read were not compared"
    assert {sentence.endswith(limit) for sentence in overlaps} == {kind is not None}
