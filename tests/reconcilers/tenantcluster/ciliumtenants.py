"""A Ready TenantCluster with Cilium and two allocations, for tests of the tenant's pass."""

from typing import Any

from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.loadbalancers.cilium.adapter import CiliumKind
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica
from tests.reconcilers.lbipam import POOLS, LbIpam
from tests.reconcilers.server import Json, Server

CILIUM_SPEC: Json = {"addons": {"loadBalancer": {"version": "1", "provider": "cilium"}}}
FIRST_RANGE, SECOND_RANGE = ("10.40.0.0", "10.40.0.7"), ("10.40.0.8", "10.40.0.15")
FIRST_ENTRY, SECOND_ENTRY = "10.40.0.0-10.40.0.7", "10.40.0.8-10.40.0.15"
"""The ranges of the two allocations, as Cilium's pools show them."""
L2_POLICIES = "ciliuml2announcementpolicies"
TENANT = Key("team", "a")


def make_cilium_tenant(
    *more_kinds: str, spec: Json = CILIUM_SPEC, provider: ProviderConfig | None = None
) -> tuple[Lab, Replica, Server, LbIpam]:
    """Return the lab of a Ready tenant with Cilium and two allocations.

    Args:
        more_kinds: plurals of further kinds that the tenant's API server serves.
        spec: the spec of the TenantCluster.
        provider: its ProviderConfig; None for one of default sizes.

    Returns:
        the lab, a replica that knows Cilium, the tenant's API server, and its operator.
    """
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", provider or make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(spec=spec, status={"phase": "Ready"}))
    for name, held_range in (("team-a-lb", FIRST_RANGE), ("team-a-lb-2", SECOND_RANGE)):
        note = {names.ANNOTATION_LOAD_BALANCER: "cilium"}
        allocation = make.allocation(
            name, tenant="team/a", held_range=held_range, annotations=note
        )
        lab.server.add("ipallocations", allocation)
    tenant = lab.start_tenant_server("a", ("services", "namespaces", POOLS, *more_kinds))
    operator = LbIpam(tenant)
    replica = Replica(lab, kinds={"cilium": CiliumKind(lab.clock, wait=0.0)})
    replica.use_real_release_check()
    return lab, replica, tenant, operator


async def run_passes(lab: Lab, replica: Replica, seconds: int = 12) -> None:
    """Run passes over the tenant and its allocations, a second apart."""
    for _ in range(seconds):
        await replica.clusters.reconcile(TENANT)
        for allocation in list(replica.caches["ipallocations"]):
            await replica.allocations.reconcile(allocation.metadata.key)
        await lab.clock.advance(1)


def add_service(tenant: Server, name: str = "web", key: str = "", **spec: Any) -> None:
    """Create a Service of type LoadBalancer, with a sharing key unless `key` is empty."""
    annotations = {"lbipam.cilium.io/sharing-key": key} if key else {}
    body = {"metadata": {"name": name, "namespace": "default", "annotations": annotations}}
    tenant.add("services", body | {"spec": {"type": "LoadBalancer"} | spec})


def make_metallb_deployment(argument: str) -> Json:
    """Return the Deployment of a MetalLB controller that is started with one argument."""
    labels = {"app": "metallb", "component": "controller"}
    meta = {"name": "controller", "namespace": "metallb-system", "labels": labels}
    containers = [{"name": "controller", "args": [argument]}]
    return {"metadata": meta, "spec": {"template": {"spec": {"containers": containers}}}}
