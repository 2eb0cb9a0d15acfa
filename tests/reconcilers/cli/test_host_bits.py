"""A warning about a CIDR with host bits set, for each kind of pool."""

from pathlib import Path
from typing import Any

import pytest

from controller.meta import ObjectMeta
from reconcilers.api.names import GROUP
from reconcilers.integrations.clusterapi import rules as clusterapi_rules
from reconcilers.integrations.clusterapi.api import IPPoolSpec, PrefixPoolSpec
from reconcilers.integrations.kubermatic import rules as kubermatic_rules
from reconcilers.integrations.kubermatic.api import Datacenter, IPAMPool, KkpPoolSpec
from tests.reconcilers.cli.saved import run_on_files

IPAM = "ipam.cluster.x-k8s.io/v1alpha2"
POOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "NetworkPool": (
        f"{GROUP}/v1alpha1",
        {"cidr": "10.1.0.0/24", "reserved": [{"cidr": "10.1.0.200/28"}]},
    ),
    "InClusterIPPool": (IPAM, {"addresses": ["10.2.0.200/28"], "prefix": 24}),
    "GlobalInClusterIPPool": (
        IPAM,
        {"addresses": ["10.3.0.0/24"], "prefix": 24, "excludedAddresses": ["10.3.0.200/28"]},
    ),
    "IPAMPool": (
        "kubermatic.k8c.io/v1",
        {
            "datacenters": {
                "dc": {
                    "type": "prefix",
                    "poolCidr": "10.4.0.0/24",
                    "allocationPrefix": 28,
                    "excludePrefixes": ["10.4.0.200/28"],
                }
            }
        },
    ),
    "NetworkNamespace": (
        "vitistack.io/v1alpha1",
        {
            "datacenterIdentifier": "dc",
            "ipAllocation": {
                "type": "static",
                "provider": "static-ip-operator",
                "static": {"ipv4CIDR": "10.5.0.200/28"},
            },
        },
    ),
}


def make_pool(kind: str) -> dict[str, Any]:
    """Return a pool of a kind, with the spec in POOLS."""
    group_version, spec = POOLS[kind]
    meta = {"name": "odd"}
    if kind not in {"IPAMPool", "GlobalInClusterIPPool"}:
        meta["namespace"] = "default"
    return {"apiVersion": group_version, "kind": kind, "metadata": meta, "spec": spec}


@pytest.mark.parametrize("command", ["check", "plan"])
@pytest.mark.parametrize("kind", POOLS)
def test_check_and_plan_warn_about_host_bits_in_every_kind(
    tmp_path: Path, kind: str, command: str
) -> None:
    outcome = run_on_files(tmp_path, command, objects=(make_pool(kind),))
    assert ".0.200/28' has host bits set; it is read as 10." in outcome.out + outcome.err
    assert f"{kind} " in outcome.out + outcome.err
    assert outcome.code == 0, "it is a warning"


def test_the_webhook_of_cluster_apis_pools_names_the_entry() -> None:
    spec = IPPoolSpec(addresses=("10.2.0.0/28", "10.2.0.200/28"), prefix=24)
    assert list(clusterapi_rules.find_warnings(spec)) == [
        "spec.addresses[1]: '10.2.0.200/28' has host bits set; it is read as 10.2.0.192/28"
    ]
    prefixes = PrefixPoolSpec(prefixes=("fd00::1/64",), allocationPrefixLength=80)
    assert list(clusterapi_rules.find_warnings(prefixes)) == [
        "spec.prefixes[0]: 'fd00::1/64' has host bits set; it is read as fd00::/64"
    ]


def test_the_webhook_of_ipampools_names_the_field() -> None:
    datacenter = Datacenter("range", poolCidr="10.4.0.200/28", allocationRange=4)
    pool = IPAMPool(ObjectMeta("odd", ""), KkpPoolSpec({"dc": datacenter}))
    assert list(kubermatic_rules.find_warnings(pool)) == [
        (
            "spec.datacenters.dc.poolCidr: '10.4.0.200/28' has host bits set; it is read as"
            " 10.4.0.192/28"
        )
    ]
