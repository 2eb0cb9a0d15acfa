"""`plan` validates objects by the schema as strictly as an API server.

The expectations are the answers of a real kube-apiserver (1.36).
"""

from collections.abc import Mapping
from typing import Any

import pytest

from reconcilers.api.ipallocation import ONE_SIZE
from tests.reconcilers.cli.commandline import (
    make_allocation,
    make_cluster,
    make_object,
    make_pool,
    plan,
)

POOL = {"cidr": "10.0.0.0/24"}
AN_ADDRESS = " such as 10.40.1.0 or fd00::10"
A_CIDR = " such as 10.40.0.0/24 or fd00::/64"


def list_errors(body: Mapping[str, Any]) -> list[str]:
    """Return the errors about one object, without their place and the object's name."""
    outcome = plan(body)
    return [error.split(": ", 2)[2] for error in outcome.errors if "not in the input" not in error]


def list_pool_errors(spec: Mapping[str, Any]) -> list[str]:
    """Return the errors about a NetworkPool with this spec."""
    return list_errors(make_object("NetworkPool", "x", spec))


def list_request_errors(**changes: Any) -> list[str]:
    """Return the errors about an IPAllocation with these fields in its spec."""
    body = make_allocation("x")
    body["spec"] |= changes
    return list_errors(body)


@pytest.mark.parametrize(
    ("count", "fault"),
    [
        (8, None),
        (8.0, None),
        (None, None),
        (2**31 - 1, None),
        (0, "spec.count: must be at least 1, not 0"),
        (-3, "spec.count: must be at least 1, not -3"),
        (8.5, "spec.count: must be an integer, not 8.5"),
        (2**31, "spec.count: 2147483648 does not fit into int32"),
        (True, "spec.count: must be an integer, not true"),
        ("8", "spec.count: must be an integer, not '8'; remove the quotes"),
        ("many", "spec.count: must be an integer, not 'many'"),
        ([8], "spec.count: must be an integer, not a list"),
    ],
)
def test_a_count_is_a_whole_number_of_at_least_one(count: Any, fault: str | None) -> None:
    assert list_request_errors(count=count) == ([fault] if fault else [])


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, "spec.cidr: is missing"),
        ({"cidr": None}, "spec.cidr: is missing"),
        ({"cidr": "banana"}, "spec.cidr: 'banana' is not a CIDR" + A_CIDR),
        ({"cidr": "10.0.0.0/24\n"}, r"spec.cidr: '10.0.0.0/24\n' is not a CIDR" + A_CIDR),
        ({"cidr": "١٠.0.0.0/24"}, "spec.cidr: '١٠.0.0.0/24' is not a CIDR" + A_CIDR),
        ({"cidr": 10}, "spec.cidr: must be a string, not 10; quote it"),
        (POOL | {"reserved": "x"}, "spec.reserved: must be a list, not 'x'"),
        (POOL | {"reserved": ["x"]}, "spec.reserved[0]: must be a mapping, not 'x'"),
        (POOL | {"reserved": [{}]}, "spec.reserved[0].cidr: is missing"),
        (
            POOL | {"tenantAllocation": {"start": "10.0.0.9", "end": "10.0.0.1"}},
            "spec.tenantAllocation: ranges[0] start 10.0.0.9 is after end 10.0.0.1",
        ),
        (
            POOL | {"tenantAllocation": {"start": "10.0.0.9"}},
            "spec.tenantAllocation: set both start and end, or neither",
        ),
        (
            POOL | {"tenantAllocation": {"ranges": [{"start": "10.0.0.9", "end": "10.0.0.1"}]}},
            "spec.tenantAllocation.ranges[0]: ranges[0] start 10.0.0.9 is after end 10.0.0.1",
        ),
        (
            POOL | {"tenantAllocation": {"ranges": [{"start": "a", "end": "b"}] * 17}},
            "spec.tenantAllocation.ranges: has 17 items, at most 16 fit",
        ),
        (
            POOL | {"tenantAllocation": {"defaults": {"nodesPerTenant": 0}}},
            "spec.tenantAllocation.defaults.nodesPerTenant: must be at least 1, not 0",
        ),
    ],
)
def test_an_error_about_a_pool_that_breaks_the_schema_names_the_field(
    spec: Mapping[str, Any], fault: str
) -> None:
    assert list_pool_errors(spec) == [fault]


@pytest.mark.parametrize(
    ("memory", "fault"),
    [
        ("16Gi", ""),
        (8, ""),
        ("1e3", ""),
        ("16 Gi", "'16 Gi' does not match ^"),
        (True, "must be a string or an integer, not true"),
        (1.5, "must be a string or an integer, not 1.5"),
    ],
)
def test_a_quantity_is_a_string_of_its_pattern_or_an_integer(memory: Any, fault: str) -> None:
    workers = {"replicas": 1, "machineTemplate": {"memory": memory}}
    spec = {"kubernetesVersion": "v1.33.1", "workers": workers}
    prefix = "spec.workers.machineTemplate.memory: "
    sentences = [
        sentence
        for sentence in list_errors(make_object("TenantCluster", "x", spec))
        if sentence.startswith(prefix)
    ]
    assert [sentence.startswith(prefix + fault) for sentence in sentences] == (
        [True] if fault else []
    )


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"type": "lb"}, "spec.type: 'lb' is not one of nodes, loadbalancer"),
        (
            {"type": "node"},
            "spec.type: 'node' is not one of nodes, loadbalancer; did you mean nodes?",
        ),
        ({"poolRef": {"name": ""}}, "spec.poolRef.name: must not be empty"),
        ({"tenantClusterRef": {"name": "x"}}, "spec.tenantClusterRef.namespace: is missing"),
        (
            {"prefixLength": 64, "count": 8},
            f"spec.prefixLength: {ONE_SIZE.message}",
        ),
        ({"prefixLength": 129, "count": None}, "spec.prefixLength: must be at most 128, not 129"),
        (
            {"pinnedRange": {"startAddress": "10.0.0.9", "endAddress": "10.0.0.1"}},
            "spec.pinnedRange: invalid IP range: start is after end: start 10.0.0.9, end 10.0.0.1",
        ),
        (
            {"pinnedRange": {"startAddress": "10.0.0.9/32", "endAddress": "10.0.0.9"}},
            f"spec.pinnedRange.startAddress: '10.0.0.9/32' is not an IP address{AN_ADDRESS}",
        ),
    ],
)
def test_an_error_about_a_request_that_breaks_the_schema_names_the_field(
    changes: Mapping[str, Any], fault: str
) -> None:
    assert list_request_errors(**changes) == [fault]


def test_a_cluster_needs_a_version_and_workers() -> None:
    body = make_cluster()
    body["spec"] |= {"kubernetesVersion": "1.33", "workers": {}}
    assert list_errors(body) == [
        "spec.kubernetesVersion: '1.33' is not a version such as v1.33.1",
        "spec.workers.replicas: is missing",
    ]


def test_a_provider_needs_credentials_unless_it_is_local() -> None:
    [fault] = list_errors(make_object("ProviderConfig", "x", {"provider": "nutanix"}))
    assert "credentialsRef with a non-empty name is required" in fault
    assert list_errors(make_object("ProviderConfig", "x", {"provider": "local"})) == []


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (
            {"provider": "aws", "credentialsRef": {"name": "x"}},
            'spec.aws: aws settings are required when provider is "aws"',
        ),
        (
            {
                "provider": "gcp",
                "credentialsRef": {"name": "x"},
                "gcp": {"projectID": "p", "region": "r"},
                "network": {"mode": "ipam", "poolRefs": [{"name": "x"}]},
            },
            "spec.network.mode: IPAM mode is not supported for cloud providers",
        ),
        (
            {"provider": "local", "scope": {"type": "team"}},
            'spec.scope.teamRef: teamRef is required when scope type is "team"',
        ),
    ],
)
def test_an_error_about_a_provider_that_breaks_a_rule_names_the_field(
    spec: Mapping[str, Any], fault: str
) -> None:
    assert list_errors(make_object("ProviderConfig", "x", spec)) == [fault]


@pytest.mark.parametrize("end", ["10.0.0.1", "x", ""])
def test_a_load_balancer_pool_with_an_invalid_range_is_an_error(end: str) -> None:
    pool_by_hand = {"start": "10.0.0.9", "end": end}
    [fault] = list_errors(make_cluster(networking={"loadBalancerPool": pool_by_hand}))
    assert fault.startswith("spec.networking.loadBalancerPool: invalid IP range: ")


def test_a_missing_spec_is_an_error() -> None:
    body = make_pool("x")
    del body["spec"]
    assert list_errors(body) == ["spec: is missing"]


def test_a_status_is_validated_by_the_schema_too() -> None:
    broken = {"phase": "Done", "allocatedCount": "8", "allocatedAt": "yesterday"}
    assert list_errors(make_allocation("x", status=broken)) == [
        "status.phase: 'Done' is not one of Pending, Allocated, Released, Failed",
        "status.allocatedCount: must be an integer, not '8'; remove the quotes",
        "status.allocatedAt: 'yesterday' is not a time such as 2026-01-31T12:00:00Z",
    ]


def test_two_conditions_of_one_type_are_an_error() -> None:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = make_pool("x", status={"conditions": [condition, condition]})
    assert list_errors(body) == ["status.conditions[1]: has the same type as item 0"]


def test_a_condition_whose_type_is_a_list_is_an_error() -> None:
    faults = list_errors(make_pool("x", status={"conditions": [{"type": [], "status": "True"}]}))
    assert "status.conditions[0].type: must be a string, not a list" in faults


def test_an_unknown_field_is_a_warning_and_dropped() -> None:
    body = make_pool("x")
    body["spec"]["resrved"] = []
    body["metadata"]["nmae"] = "y"
    body["extra"] = 1
    outcome = plan(body)
    assert outcome.code == 0
    assert [warning.split(": ", 2)[2] for warning in outcome.warnings] == [
        "metadata.nmae: this field is unknown and ignored; did you mean name?",
        "spec.resrved: this field is unknown and ignored; did you mean reserved?",
        "extra: this field is unknown and ignored",
    ]
    known_fields = {"cidr": "10.40.0.0/24", "excludeNetworkAndBroadcast": False}
    assert outcome.items["NetworkPool/x"]["spec"] == known_fields


def test_free_form_values_are_kept_as_they_are() -> None:
    values = {"anything": [1, {"goes": None}]}
    body = make_cluster(addons={"loadBalancer": {"version": "0.14.9", "values": values}})
    planned = plan(body).items["TenantCluster/app"]
    assert planned["spec"]["addons"]["loadBalancer"]["values"] == values


@pytest.mark.parametrize(
    ("metadata", "fault"),
    [
        ({"name": "Big"}, "metadata.name: 'Big' must be lower-case"),
        ({"name": "a" * 254}, "must be lower-case"),
        ({"name": None}, "metadata.name: is missing"),
        ({"namespace": "a.b"}, "metadata.namespace: 'a.b'"),
        ({"labels": {"a b": "c"}}, "'a b' is not a label key"),
        ({"labels": {"a": "c d"}}, "metadata.labels.a: 'c d' is not a label value"),
        ({"labels": {"a": 1}}, "metadata.labels.a: must be a string, not 1; quote it"),
        ({"labels": ["a"]}, "metadata.labels: must be a mapping, not a list"),
        ({"annotations": {"a": True}}, "metadata.annotations.a: must be a string, not true"),
        ({"finalizers": "x"}, "metadata.finalizers: must be a list, not 'x'"),
        ({"generation": "1"}, "metadata.generation: must be an integer, not '1'"),
        ({"resourceVersion": "abc"}, "'abc' is not a resourceVersion"),
        ({"resourceVersion": "9" * 5000}, "is not a resourceVersion"),
        ({"creationTimestamp": "yesterday"}, "'yesterday' is not a time"),
        ({"creationTimestamp": "2026-02-31T00:00:00Z"}, "is not a time"),
    ],
)
def test_invalid_metadata_is_an_error(metadata: dict[str, Any], fault: str) -> None:
    body = make_pool("x")
    body["metadata"] |= metadata
    [error] = plan(body).errors
    assert fault in error


@pytest.mark.parametrize("metadata", [None, [], "x"])
def test_metadata_that_is_no_mapping_is_an_error(metadata: Any) -> None:
    [error] = plan(make_pool("x") | {"metadata": metadata}).errors
    assert "metadata: " in error
