"""Requests of two kinds with the same namespace and name are two holders, of two tenants."""

from datetime import UTC, datetime

import pytest

from controller.meta import Key, ObjectMeta
from reconcilers.integrations.clusterapi.addresses import parse_ip_space
from reconcilers.integrations.clusterapi.api import (
    CLAIM_FINALIZER,
    JOURNALS,
    ClaimSpec,
    IPAddressClaim,
    IPPoolSpec,
    PoolRef,
)
from reconcilers.integrations.clusterapi.caches import compute_claim_facts
from reconcilers.networkpool import facts as networkpool
from reconcilers.promises.identities import Holder, Tenant, find_by_key
from reconcilers.promises.queue import Row, TenantRow
from reconcilers.promises.shares import Eligibility, ShareVerdict, get_namespace_as_tenant
from tests.reconcilers import make

CLAIM, ALLOCATION = Holder("Claim", Key("team", "a")), Holder("Allocation", Key("team", "a"))


def test_a_request_of_another_kind_is_not_found_by_the_same_name() -> None:
    find = find_by_key("Claim", {Key("team", "a"): "claim"}.get)
    assert find(CLAIM) == "claim"
    assert find(ALLOCATION) is None


def test_stuck_promises_of_one_kind_stop_no_request_of_another_kind() -> None:
    claims = get_namespace_as_tenant(CLAIM)
    eligibility = Eligibility(stuck={claims: 8})
    meta = ObjectMeta(namespace="team", name="a", uid="u")
    assert eligibility.judge(meta, claims) is ShareVerdict.TENANT_WAITS
    assert eligibility.judge(meta, get_namespace_as_tenant(ALLOCATION)) is ShareVerdict.ELIGIBLE


def make_row_of_claim() -> Row:
    """Return the row in which a claim waits for an in-cluster pool."""
    meta = ObjectMeta(
        namespace="team",
        name="a",
        creationTimestamp=datetime(2026, 1, 1, tzinfo=UTC),
        finalizers=(CLAIM_FINALIZER,),
    )
    claim = IPAddressClaim(meta, ClaimSpec(PoolRef(kind="InClusterIPPool", name="p")))
    space = parse_ip_space(IPPoolSpec(("10.0.0.0/28",), 24))
    facts = compute_claim_facts(claim, None, space)
    assert facts is not None
    return facts.row


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (networkpool.KIND, networkpool.make_row(make.allocation("a"))),
        (JOURNALS.kind, make_row_of_claim()),
    ],
)
def test_a_row_begins_with_the_kind_of_its_requests(kind: str, row: Row) -> None:
    assert isinstance(row, TenantRow)
    assert isinstance(row.tenant, Tenant)
    assert row.tenant.kind == kind
    assert isinstance(row.answer, tuple)
    assert row.answer[0] == kind
