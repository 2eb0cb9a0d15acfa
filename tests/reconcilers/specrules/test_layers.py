"""The layers that judge a spec agree on the same inputs: CRD, rules, controllers.

Whatever the CRD and the rules admit, no controller calls invalid; and the reverse, but for the
exceptions that stand here. docs/design/validation.md lists them for people.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from allocator import AllocatorError, InvalidPool, RequestRefused, Space
from envtest.schema import CompiledSchema
from reconcilers.addressing import familychoice, poolgeometry, rangetaking, requestedranges
from reconcilers.api import crd, names
from reconcilers.api.fields import IS_ADDRESS
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.poolrules import GATEWAY_FAMILY, TOGETHER
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.providerconfig import evaluation
from reconcilers.specrules import poolspecs, providerspecs, requestspecs, tenantspecs
from tests.reconcilers import make
from tests.reconcilers.specrules.specs import (
    POOL_SPECS,
    PROVIDER_SPECS,
    REQUEST_SPECS,
    TENANT_SPECS,
    Json,
)

KINDS: tuple[type, ...] = (NetworkPool, IPAllocation, ProviderConfig, TenantCluster)
SCHEMAS = {kind: CompiledSchema.compile(crd.structural_schema(kind)) for kind in KINDS}
LIMIT = 1 << 20
MANY = settings(deadline=None, max_examples=150)

SERVED_ALL_THE_SAME = {GATEWAY_FAMILY.message, IS_ADDRESS.message, TOGETHER.message}
"""Faults that do not make a stored NetworkPool invalid. A gateway outside its CIDR reserves
nothing. Beside ranges, start and end have no effect."""
CRD_ALONE = ("spec.tenantAllocation", "spec.tenantAllocation.start", "spec.tenantAllocation.end")
"""Fields that only the CRD judges where ranges are given: start and end have no effect then."""
BEYOND_CEL = ("straddles ranges[",)
"""Parts of the messages about faults that the rules find and CEL does not."""


def written(kind: type, spec: Json) -> Json:
    """Return an object as a client writes it."""
    meta = {"name": "lab", "namespace": make.NAMESPACE}
    head = {"apiVersion": names.API_VERSION, "kind": kind.__name__}
    return {**head, "metadata": meta, "spec": spec}


def decoded(kind: Any, spec: Json) -> Any:
    """Return an object as the webhook and the caches read it."""
    return msgspec.json.decode(msgspec.json.encode(written(kind, spec)), type=kind)


def crd_faults(kind: type, spec: Json) -> list[str]:
    """Return the fields for which the API server refuses a new object."""
    new = written(kind, spec)
    SCHEMAS[kind].default(new)
    return [fault.field for fault in SCHEMAS[kind].validate(new, None)]


@pytest.mark.slow
@MANY
@given(POOL_SPECS)
def test_a_pool_is_admitted_if_and_only_if_its_controller_serves_it(spec: Json) -> None:
    pool: NetworkPool = decoded(NetworkPool, spec)
    by_crd = crd_faults(NetworkPool, spec)
    by_rules = [fault.message for fault in poolspecs.find_pool_faults(pool.spec, LIMIT)]
    try:
        poolgeometry.parse_layouts(pool.spec, LIMIT)
        by_controller = ""
    except InvalidPool as invalid:
        by_controller = str(invalid)
    if by_controller:
        assert by_rules, "the controller refuses what the rules admit"
    has_ranges = bool(spec.get("tenantAllocation", {}).get("ranges"))
    if not (has_ranges and set(by_crd) <= set(CRD_ALONE)):
        assert by_rules or not by_crd, "the CRD refuses what the rules admit"
    beyond = all(any(part in message for part in BEYOND_CEL) for message in by_rules)
    assert by_crd or not by_rules or beyond, "the rules refuse what the CRD admits"
    assert by_controller or set(by_rules) <= SERVED_ALL_THE_SAME


POOLS = (
    {"cidr": "10.0.0.0/26"},
    {"cidr": "10.0.0.0/27", "reserved": [{"cidr": "10.0.0.8/29"}]},
    {"cidr": "fd00::ffc0/122"},
    {"cidr": "10.0.0.0/27", "secondary": {"cidr": "fd00::ffc0/123"}},
    {"cidr": "fd00::ffc0/123", "secondary": {"cidr": "10.0.0.0/27"}},
)


@pytest.mark.slow
@pytest.mark.parametrize("of_pool", POOLS, ids="+".join)
@MANY
@given(spec=REQUEST_SPECS)
def test_a_request_is_admitted_if_and_only_if_an_empty_pool_serves_it(
    of_pool: Json, spec: Json
) -> None:
    pool: NetworkPool = decoded(NetworkPool, of_pool)
    request: IPAllocation = decoded(IPAllocation, spec)
    layouts = poolgeometry.parse_layouts(pool.spec, LIMIT)
    by_crd = crd_faults(IPAllocation, spec)
    alone = requestspecs.review_request(request)
    if by_crd:
        assert not alone.allowed, "the CRD refuses what the rules admit"
    assert by_crd or alone.allowed, "the rules refuse what the CRD admits"
    try:
        rangetaking.take_ranges(pool, request, [Space(layout) for layout in layouts])
        refused = None
    except AllocatorError as error:
        refused = error
    if not alone.allowed:
        return  # the API server stores none of these
    count = requestedranges.count_requested(request, pool)
    impossible = requestspecs.find_impossibility(request, count, pool, layouts)
    lacks_family = isinstance(
        refused, familychoice.PoolNotDualStack | familychoice.FamilyNotConfigured
    )
    assert (refused is not None) == (impossible is not None or lacks_family)


@pytest.mark.slow
@MANY
@given(PROVIDER_SPECS)
def test_a_provider_is_admitted_if_and_only_if_its_controller_calls_it_valid(spec: Json) -> None:
    config: ProviderConfig = decoded(ProviderConfig, spec)
    by_rules = providerspecs.review_provider(config)
    assert by_rules.allowed is not bool(crd_faults(ProviderConfig, spec))
    assert by_rules.allowed is (evaluation.validity(config) is None)


@pytest.mark.slow
@MANY
@given(TENANT_SPECS)
def test_a_cluster_is_admitted_if_and_only_if_a_pool_of_both_families_can_serve_it(
    spec: Json,
) -> None:
    cluster: TenantCluster = decoded(TenantCluster, spec)
    by_rules = tenantspecs.review_tenant(cluster)
    assert by_rules.allowed is not bool(crd_faults(TenantCluster, spec))
    try:
        familychoice.choose_cluster_families(cluster.networking, make.pool(), (4, 6))
    except RequestRefused:
        assert not by_rules.allowed
