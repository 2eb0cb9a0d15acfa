"""The objects of the story, as somebody would write them into files."""

from collections.abc import Sequence
from typing import Any

from controller.meta import Key
from reconcilers.api import names
from reconcilers.cli.local.objects import Manifest

PRIMARY = "vlan40"
SECONDARY = "vlan41"
BROKEN = "vlan42-typo"
PROVIDER = "harvester"
CREDENTIALS = "harvester-credentials"

WEB = Key("team-a", "web")
SHOP = Key("team-b", "shop")
BATCH = Key("team-c", "batch")

PINNED = "appliance"
PINNED_TWICE = "appliance-again"
LOST = "asks-nobody"
TOO_LARGE = "too-large"
SERVED = "asks-well"


def pool(
    name: str, cidr: str, spans: Sequence[tuple[str, str]], reserved: Sequence[str] = ()
) -> Manifest:
    """Return a NetworkPool."""
    return _ours(
        "NetworkPool",
        name,
        {
            "cidr": cidr,
            "reserved": [{"cidr": text, "description": "switches"} for text in reserved],
            "tenantAllocation": {
                "ranges": [{"start": start, "end": end} for start, end in spans],
                "defaults": {"nodesPerTenant": 5, "lbPoolPerTenant": 8},
            },
        },
    )


def provider(*pools: str) -> Manifest:
    """Return the ProviderConfig that offers `pools`, first choice first."""
    return _ours(
        "ProviderConfig",
        PROVIDER,
        {
            "provider": "harvester",
            "credentialsRef": {"name": CREDENTIALS},
            "harvester": {"networkName": "default/vlan40"},
            "network": {
                "mode": "ipam",
                "poolRefs": [{"name": name, "priority": n} for n, name in enumerate(pools)],
                "loadBalancer": {"defaultPoolSize": 8, "allocationMode": "static"},
            },
        },
    )


def credentials() -> Manifest:
    """Return the Secret that the ProviderConfig names."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CREDENTIALS, "namespace": names.DEFAULT_NAMESPACE},
        "stringData": {"kubeconfig": "not looked into"},
    }


def namespace(name: str) -> Manifest:
    """Return a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def cluster(key: Key) -> Manifest:
    """Return a TenantCluster."""
    spec = {
        "kubernetesVersion": "v1.31.4",
        "providerConfigRef": {"name": PROVIDER},
        "workers": {"replicas": 3},
    }
    return _ours("TenantCluster", key.name, spec, key.namespace)


def allocation(
    name: str, pool_name: str, count: int = 0, pinned: tuple[str, str] | None = None
) -> Manifest:
    """Return an IPAllocation that somebody writes by hand, by count or pinned."""
    spec: dict[str, Any] = {
        "poolRef": {"name": pool_name},
        "tenantClusterRef": {"namespace": "datacenter", "name": "fixtures"},
        "type": "nodes",
    }
    if count:
        spec["count"] = count
    if pinned:
        spec["pinnedRange"] = {"startAddress": pinned[0], "endAddress": pinned[1]}
    return _ours("IPAllocation", name, spec)


def service(name: str) -> Manifest:
    """Return a Service that wants an address of its own."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "type": "LoadBalancer",
            "selector": {"app": name},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        },
    }


def _ours(kind: str, name: str, spec: Manifest, where: str = names.DEFAULT_NAMESPACE) -> Manifest:
    return {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": where},
        "spec": spec,
    }
