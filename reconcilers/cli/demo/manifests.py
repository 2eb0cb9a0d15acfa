"""The objects of the story, as somebody would write them into files."""

import json
from collections.abc import Sequence
from typing import Any

from controller.meta import Key
from reconcilers.api import names
from reconcilers.cli.demo.settings import BUNDLE
from reconcilers.cli.local.objects import Manifest

PRIMARY = "vlan40"
SECONDARY = "vlan41"
SMALL = "vlan42"
SEVERAL = "brownfield"
LATE = "not-there-yet"
BUSY = "vlan48"

PROVIDER = "harvester"
ELASTIC = "harvester-elastic"
CREDENTIALS = "harvester-credentials"

WEB = Key("team-a", "web")
SHOP = Key("team-b", "shop")
BATCH = Key("team-c", "batch")
BARE = Key("team-d", "bare")

PINNED = "appliance"
PINNED_TWICE = "appliance-again"
LOST = "asks-nobody-yet"
HOLDER = "fills-the-pool"
WAITING = "comes-too-late"
FITS = "fits-a-gap"
FITS_TOO = "fits-another"
RESTORED = "from-a-backup"


def pool(
    name: str, cidr: str, spans: Sequence[tuple[str, str]] = (), reserved: Sequence[str] = ()
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


def provider(name: str, sizing: Manifest, *pools: str) -> Manifest:
    """Return a ProviderConfig that offers `pools`, first choice first."""
    return _ours(
        "ProviderConfig",
        name,
        {
            "provider": "harvester",
            "credentialsRef": {"name": CREDENTIALS},
            "harvester": {"networkName": "default/vlan40"},
            "network": {
                "mode": "ipam",
                "poolRefs": [{"name": one, "priority": n} for n, one in enumerate(pools)],
                "loadBalancer": sizing,
            },
        },
    )


def static(size: int) -> Manifest:
    """Return the sizing by which each tenant has `size` addresses for load balancers."""
    return {"defaultPoolSize": size, "allocationMode": "static"}


def elastic(initial: int, increment: int) -> Manifest:
    """Return the sizing by which tenants have what they need."""
    return {
        "allocationMode": "elastic",
        "initialPoolSize": initial,
        "growthIncrement": increment,
    }


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


def cluster(key: Key, provider_name: str = PROVIDER) -> Manifest:
    """Return a TenantCluster."""
    spec = {
        "kubernetesVersion": "v1.31.4",
        "providerConfigRef": {"name": provider_name},
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


def restored(name: str, pool_name: str, owner: Key, uid: str) -> Manifest:
    """Return an IPAllocation as a backup has it, made for a cluster that had a certain uid."""
    body = allocation(name, pool_name, count=2)
    meta = {**body["metadata"], "annotations": {names.ANNOTATION_TENANT_UID: uid}}
    reference = {"namespace": owner.namespace, "name": owner.name}
    return {**body, "metadata": meta, "spec": {**body["spec"], "tenantClusterRef": reference}}


def bundle(definitions: Sequence[Manifest]) -> Manifest:
    """Return the ConfigMap with what installs MetalLB: here its kinds, as the rest are pods."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": BUNDLE, "namespace": names.DEFAULT_NAMESPACE},
        "data": {"metallb.yaml": "\n---\n".join(json.dumps(one) for one in definitions)},
    }


def _ours(kind: str, name: str, spec: Manifest, where: str = names.DEFAULT_NAMESPACE) -> Manifest:
    return {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": where},
        "spec": spec,
    }
