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
FIXTURES = Key("datacenter", "fixtures")

PINNED = "appliance"
PINNED_TWICE = "appliance-again"
LOST = "asks-nobody-yet"
HOLDER = "fills-the-pool"
WAITING = "comes-too-late"
FITS = "fits-a-gap"
FITS_TOO = "fits-another"
RESTORED = "from-a-backup"


def _object(
    kind: str, name: str, where: str = names.DEFAULT_NAMESPACE, version: str = "v1", **parts: Any
) -> Manifest:
    meta = {"name": name, "namespace": where} | parts.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": meta, **parts}


def _ours(kind: str, name: str, spec: Manifest, **meta: Any) -> Manifest:
    where = meta.pop("namespace", names.DEFAULT_NAMESPACE)
    return _object(kind, name, where, names.API_VERSION, metadata=meta, spec=spec)


def pool(
    name: str, cidr: str, spans: Sequence[tuple[str, str]] = (), reserved: Sequence[str] = ()
) -> Manifest:
    """Return a NetworkPool."""
    tenants = {
        "ranges": [{"start": start, "end": end} for start, end in spans],
        "defaults": {"nodesPerTenant": 5, "lbPoolPerTenant": 8},
    }
    kept = [{"cidr": text, "description": "switches"} for text in reserved]
    spec = {"cidr": cidr, "reserved": kept, "tenantAllocation": tenants}
    return _ours("NetworkPool", name, spec)


def provider(name: str, sizing: Manifest, *pools: str) -> Manifest:
    """Return a ProviderConfig that offers `pools`, first choice first."""
    refs = [{"name": one, "priority": n} for n, one in enumerate(pools)]
    spec = {
        "provider": "harvester",
        "credentialsRef": {"name": CREDENTIALS},
        "harvester": {"networkName": "default/vlan40"},
        "network": {"mode": "ipam", "poolRefs": refs, "loadBalancer": sizing},
    }
    return _ours("ProviderConfig", name, spec)


def static(size: int) -> Manifest:
    """Return the sizing by which each tenant has `size` addresses for load balancers."""
    return {"defaultPoolSize": size, "allocationMode": "static"}


def elastic(initial: int, step: int) -> Manifest:
    """Return the sizing by which tenants have what they need."""
    return {"allocationMode": "elastic", "initialPoolSize": initial, "growthIncrement": step}


def credentials() -> Manifest:
    """Return the Secret that the ProviderConfig names."""
    return _object("Secret", CREDENTIALS, stringData={"kubeconfig": "not looked into"})


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
    return _ours("TenantCluster", key.name, spec, namespace=key.namespace)


def allocation(
    name: str,
    pool_name: str,
    count: int = 0,
    pinned: tuple[str, str] | None = None,
    owner: Key = FIXTURES,
    **meta: Any,
) -> Manifest:
    """Return an IPAllocation that somebody writes by hand, by count or pinned."""
    spec: dict[str, Any] = {
        "poolRef": {"name": pool_name},
        "tenantClusterRef": {"namespace": owner.namespace, "name": owner.name},
        "type": "nodes",
    }
    if count:
        spec["count"] = count
    if pinned:
        spec["pinnedRange"] = {"startAddress": pinned[0], "endAddress": pinned[1]}
    return _ours("IPAllocation", name, spec, **meta)


def restored(name: str, pool_name: str, owner: Key, uid: str) -> Manifest:
    """Return an IPAllocation as a backup has it, made for a cluster that had a certain uid."""
    stamp = {names.ANNOTATION_TENANT_UID: uid}
    return allocation(name, pool_name, 2, owner=owner, annotations=stamp)


def service(name: str) -> Manifest:
    """Return a Service that wants an address of its own."""
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    spec = {"type": "LoadBalancer", "selector": {"app": name}, "ports": ports}
    return _object("Service", name, "default", spec=spec)


def bundle(definitions: Sequence[Manifest]) -> Manifest:
    """Return the ConfigMap with what installs MetalLB: here its kinds, as the rest are pods."""
    text = "\n---\n".join(json.dumps(one) for one in definitions)
    return _object("ConfigMap", BUNDLE, data={"metallb.yaml": text})
