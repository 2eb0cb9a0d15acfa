"""The layers that check a spec agree: the schema of the CRD, the webhooks' rules, the controllers.

A spec that the CRD and the rules admit is valid for its controller, and the reverse. The
exceptions are listed here, and for readers in docs/design/validation.md.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import AllocatorError, InvalidPool, RequestRefused, Space
from controller.scaffold.schemas import create_structural_schema
from envtest.schema import CompiledSchema
from reconcilers.addressing import familychoice, poolgeometry, rangetaking, requestedranges
from reconcilers.api import names
from reconcilers.api.fields import IS_ADDRESS
from reconcilers.api.ipallocation import (
    DISTINCT_FAMILIES,
    ONE_BLOCK,
    ONE_SIZE,
    PINNED_ONCE,
    IPAllocation,
)
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
SCHEMAS = {kind: CompiledSchema.compile(create_structural_schema(kind)) for kind in KINDS}
LIMIT = 1 << 20
LIMITS = st.sampled_from([48, LIMIT])
"""The largest IPv4 pool, in addresses; some of those that are drawn have 64."""
MANY = settings(deadline=None, max_examples=150)

SERVED_ANYWAY = {GATEWAY_FAMILY.message, IS_ADDRESS.message, TOGETHER.message}
"""Faults that do not make a stored NetworkPool invalid. A gateway outside its CIDR reserves
nothing. Beside ranges, start and end have no effect."""
RESOLVED_BY_CONTROLLER = {
    rule.message for rule in (ONE_SIZE, ONE_BLOCK, DISTINCT_FAMILIES, PINNED_ONCE)
}
"""Contradictions that the controller resolves in a stored IPAllocation. A pinned range counts
before a prefix length, and that before a count; a family that is named twice is one."""
CRD_ALONE = ("spec.tenantAllocation", "spec.tenantAllocation.start", "spec.tenantAllocation.end")
"""Fields that only the CRD judges where ranges are given: start and end have no effect then."""
BEYOND_CEL = ("straddles ranges[", "pool too large")
"""Parts of the messages about faults that the rules find and CEL does not."""


def write_object(kind: type, spec: Json) -> Json:
    """Return an object as a client writes it."""
    meta = {"name": "lab", "namespace": make.NAMESPACE}
    head = {"apiVersion": names.API_VERSION, "kind": kind.__name__}
    return {**head, "metadata": meta, "spec": spec}


def decode_object(kind: Any, spec: Json) -> Any:
    """Return an object as the webhook and the caches read it."""
    return msgspec.json.decode(msgspec.json.encode(write_object(kind, spec)), type=kind)


def list_crd_faults(kind: type, spec: Json) -> list[str]:
    """Return the fields for which the schema of the CRD rejects a new object."""
    new = write_object(kind, spec)
    SCHEMAS[kind].set_defaults(new)
    return [fault.field for fault in SCHEMAS[kind].validate(new, None)]


def list_pool_faults(spec: Json, limit: int) -> list[str]:
    """Return the messages with which the webhook rejects a new pool."""
    pool: NetworkPool = decode_object(NetworkPool, spec)
    return [fault.message for fault in poolspecs.find_pool_faults(pool.spec, limit)]


def find_controller_fault(spec: Json, limit: int) -> str:
    """Return why the controller hands out nothing of a stored pool; empty if it does."""
    pool: NetworkPool = decode_object(NetworkPool, spec)
    try:
        poolgeometry.parse_layouts(pool.spec, limit)
    except InvalidPool as invalid:
        return str(invalid)
    return ""


@pytest.mark.slow
@MANY
@given(POOL_SPECS, LIMITS)
def test_a_pool_is_admitted_if_and_only_if_its_controller_serves_it(
    spec: Json, limit: int
) -> None:
    by_crd = list_crd_faults(NetworkPool, spec)
    by_rules = list_pool_faults(spec, limit)
    by_controller = find_controller_fault(spec, limit)
    if by_controller:
        assert by_rules, "the controller refuses what the rules admit"
    has_ranges = bool(spec.get("tenantAllocation", {}).get("ranges"))
    if not (has_ranges and set(by_crd) <= set(CRD_ALONE)):
        assert by_rules or not by_crd, "the CRD refuses what the rules admit"
    beyond = all(any(part in message for part in BEYOND_CEL) for message in by_rules)
    assert by_crd or not by_rules or beyond, "the rules refuse what the CRD admits"
    assert by_controller or set(by_rules) <= SERVED_ANYWAY


_RANGES = {"ranges": [{"start": "10.0.0.1", "end": "10.0.0.9"}]}
_BLOCK = {"cidr": "10.0.0.0/26"}
EXCEPTIONS: dict[str, tuple[Json, tuple[bool, bool, bool]]] = {
    "a gateway that is no address": (_BLOCK | {"gateway": "10.0.0"}, (True, True, False)),
    "a gateway of the other family": (_BLOCK | {"gateway": "fd00::1"}, (True, True, False)),
    "start without end beside ranges": (
        _BLOCK | {"tenantAllocation": _RANGES | {"start": "10.0.0.1"}},
        (True, True, False),
    ),
    "start after end beside ranges": (
        _BLOCK | {"tenantAllocation": _RANGES | {"start": "10.0.0.9", "end": "10.0.0.1"}},
        (True, False, False),
    ),
    "a reservation over an end of a range": (
        _BLOCK | {"tenantAllocation": _RANGES, "reserved": [{"cidr": "10.0.0.8/29"}]},
        (False, True, True),
    ),
    "a pool above the limit": ({"cidr": "10.0.0.0/8"}, (False, True, True)),
    "a CIDR of IPv4 addresses written as IPv6": (
        {"cidr": "::ffff:10.0.0.0/122"},
        (True, False, False),
    ),
    "a range of IPv4 addresses written as IPv6": (
        _BLOCK | {"tenantAllocation": {"start": "::ffff:10.0.0.1", "end": "::ffff:10.0.0.9"}},
        (True, False, False),
    ),
}
"""By name: the spec of a pool, and whether the CRD, the rules and the controller refuse it."""


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_each_exception_is_refused_by_the_layers_that_the_page_names(name: str) -> None:
    spec, refused = EXCEPTIONS[name]
    assert refused == (
        bool(list_crd_faults(NetworkPool, spec)),
        bool(list_pool_faults(spec, LIMIT)),
        bool(find_controller_fault(spec, LIMIT)),
    )


def test_settings_of_a_cloud_that_is_not_the_provider_are_judged_by_the_crd_alone() -> None:
    spec = {"provider": "local", "aws": {"region": ""}}
    assert list_crd_faults(ProviderConfig, spec) == ["spec.aws.region"]
    assert providerspecs.review_provider(decode_object(ProviderConfig, spec)).allowed


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
    pool: NetworkPool = decode_object(NetworkPool, of_pool)
    request: IPAllocation = decode_object(IPAllocation, spec)
    layouts = poolgeometry.parse_layouts(pool.spec, LIMIT)
    by_crd = list_crd_faults(IPAllocation, spec)
    by_rules = requestspecs.review_request(request)
    if by_crd:
        assert not by_rules.allowed, "the CRD refuses what the rules admit"
    assert by_crd or by_rules.allowed, "the rules refuse what the CRD admits"
    try:
        rangetaking.take_ranges(pool, request, [Space(layout) for layout in layouts])
        refused = None
    except AllocatorError as error:
        refused = error
    if not by_rules.allowed:
        faults = {cause.message for cause in by_rules.causes}
        assert refused is not None or not faults.isdisjoint(RESOLVED_BY_CONTROLLER)
        return
    count = requestedranges.count_requested(request, pool)
    impossible = requestspecs.find_impossibility(request, count, pool=pool, layouts=layouts)
    lacks_family = isinstance(
        refused, familychoice.PoolNotDualStack | familychoice.FamilyNotConfigured
    )
    assert (refused is not None) == (impossible is not None or lacks_family)


@pytest.mark.slow
@MANY
@given(PROVIDER_SPECS)
def test_a_provider_is_admitted_if_and_only_if_its_controller_calls_it_valid(spec: Json) -> None:
    config: ProviderConfig = decode_object(ProviderConfig, spec)
    by_rules = providerspecs.review_provider(config)
    assert by_rules.allowed is not bool(list_crd_faults(ProviderConfig, spec))
    assert by_rules.allowed is (evaluation.find_contradiction(config) is None)


@pytest.mark.slow
@MANY
@given(TENANT_SPECS)
def test_a_cluster_is_admitted_if_and_only_if_a_pool_of_both_families_can_serve_it(
    spec: Json,
) -> None:
    cluster: TenantCluster = decode_object(TenantCluster, spec)
    by_rules = tenantspecs.review_tenant(cluster)
    assert by_rules.allowed is not bool(list_crd_faults(TenantCluster, spec))
    try:
        familychoice.choose_cluster_families(cluster.networking, make.pool(), (4, 6))
    except RequestRefused:
        assert not by_rules.allowed
