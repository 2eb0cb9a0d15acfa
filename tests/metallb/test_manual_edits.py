"""What a user sets in our MetalLB objects is written back within seconds, and MetalLB serves."""

from pathlib import Path
from typing import Any

import pytest

from controller.meta import Key
from controller.resource import Resource
from envtest.metallb import NAMESPACE
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.cli.local.objects import delete
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL, L2_ADVERTISEMENT
from reconcilers.loadbalancers.metallb.projection import ADVERTISEMENT_NAME
from tests.edits import edit
from tests.metallb.site import PROJECTED, Site, Tenant, run_site
from tests.polling import until
from tests.tenants import TEAM

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

ADVERTISEMENT = Key(NAMESPACE, ADVERTISEMENT_NAME)
ALLOCATION = {"namespaces": ["elsewhere"], "priority": 10}


async def _edit(tenant: Tenant, resource: Resource[Any], key: Key, **spec: Any) -> None:
    """Change the spec of an object in the tenant, as `kubectl patch` does."""
    await edit(tenant.client, resource, key=key, change={"spec": spec})


async def _read_edits(tenant: Tenant) -> tuple[str, ...]:
    """Return the fields of our IPAddressPool that others have set."""
    return (await tenant.client.get(IP_ADDRESS_POOL, PROJECTED)).spec.edited_fields


async def _read_advertisement(tenant: Tenant) -> tuple[Any, ...]:
    """Return pools, interfaces and Service selectors of our L2Advertisement."""
    spec = (await tenant.client.get(L2_ADVERTISEMENT, ADVERTISEMENT)).spec
    return spec.ipAddressPools, spec.interfaces, spec.serviceSelectors


async def _read_condition(site: Site, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition of the TenantCluster."""
    cluster = await site.client.get(TENANT_CLUSTER, Key(TEAM, "a"))
    condition = next(
        candidate for candidate in cluster.status.conditions if candidate.type == kind
    )
    return condition.status, condition.reason


async def test_every_field_is_written_back_and_services_are_served(tmp_path: Path) -> None:
    """The pool is looked at once a minute by default, the static tenant's too: it is watched."""
    async with run_site(tmp_path) as site, site.controllers():
        await site.offer("10.40.0.0/24", defaultPoolSize=8)
        await site.create_cluster("a")
        await site.ready("a")
        tenant = site.tenants["a"]
        edits: tuple[dict[str, Any], ...] = (
            {"autoAssign": False},
            {"avoidBuggyIPs": True},
            {"serviceAllocation": ALLOCATION},
            {"autoAssign": False, "avoidBuggyIPs": True, "serviceAllocation": ALLOCATION},
        )
        names = []
        for number, edit in enumerate(edits):
            await _edit(tenant, IP_ADDRESS_POOL, PROJECTED, **edit)
            names.append(f"web-{number}")
            await tenant.create_services(names[-1])
            await until(lambda: _read_edits(tenant), lambda edits: edits == ())
            assert len(set((await tenant.wait_until_served(*names)).values())) == len(names)
        selected: tuple[dict[str, Any], ...] = (
            {"interfaces": ["eth9"], "ipAddressPools": ["x"]},
            {"serviceSelectors": [{"matchLabels": {"announced": "yes"}}]},  # from 0.16 on
        )
        for edit in selected:
            await _edit(tenant, L2_ADVERTISEMENT, ADVERTISEMENT, **edit)
            await until(
                lambda: _read_advertisement(tenant),
                lambda advertised: advertised == (("default-pool",), (), ()),
            )
        await delete(tenant.client, L2_ADVERTISEMENT, ADVERTISEMENT)
        gone = await tenant.client.list(L2_ADVERTISEMENT)
        assert gone.revision > 0
        await until(
            lambda: tenant.client.list(L2_ADVERTISEMENT),
            lambda page: (
                [advertisement.spec.ipAddressPools for advertisement in page.items]
                == [("default-pool",)]
            ),
        )


async def test_a_tenant_does_not_grow_while_another_writer_keeps_overwriting_its_pool(
    tmp_path: Path,
) -> None:
    async with (
        run_site(tmp_path) as site,
        site.controllers("--growth-after=2s", "--tenant-requeue-young=1s"),
    ):
        sizes = {"initialPoolSize": 4, "growthIncrement": 4}
        await site.offer("10.40.0.0/24", allocationMode="elastic", **sizes)
        await site.create_cluster("a")
        await site.ready("a")
        tenant = site.tenants["a"]
        await _edit(tenant, IP_ADDRESS_POOL, PROJECTED, autoAssign=False)

        async def overwrite() -> tuple[str, str]:
            if await _read_edits(tenant) == ():
                await _edit(tenant, IP_ADDRESS_POOL, PROJECTED, serviceAllocation=ALLOCATION)
            return await _read_condition(site, "LoadBalancerReady")

        await until(overwrite, lambda condition: condition == ("False", "Contested"))
        await tenant.create_services("web")
        await until(overwrite, lambda condition: condition == ("False", "Contested"))
        assert len(await site.list_ranges("a")) == 1
