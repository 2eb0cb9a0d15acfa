"""A tenant with the real LB-IPAM, the product beside it, and a rival that waits for its addresses.

    async with run_with_rival(folder) as setup:
        setup.start_operator(program)
        allocated_range = await setup.serve_with_rival()
        await setup.delete_allocation()
        await setup.wait_until_rival_has(allocated_range)

Both clusters are recorded meanwhile (tests/audit). The context fails at its end if an address was
free, or the rival's, while a Service showed it.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from allocator import AddressRange
from controller.client import Client
from controller.meta import Key, ObjectMeta
from controller.resource import Resource
from envtest.lbipam import read_lbipam_definitions
from envtest.settings import read_settings
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.cli.local.objects import delete
from tests.audit.records import CILIUM_OFFERS
from tests.cilium.operators import Operator
from tests.polling import until
from tests.tenants import BALANCER, QUICK, RIVAL, Site, TenantServer, tenant_servers

SERVICES = ("one", "two", "three")
ADMISSION = "admissionregistration.k8s.io"


@dataclass(frozen=True)
class Policy:
    """A ValidatingAdmissionPolicy, or its binding; only that it is there matters."""

    metadata: ObjectMeta


POLICIES = Resource(
    ADMISSION,
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    Policy,
    namespaced=False,
)
BINDINGS = Resource(
    ADMISSION,
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    Policy,
    namespaced=False,
)


class RivalSetup:
    """A range of tenant `a` whose Services show addresses of it, and a rival that waits for it.

    Args:
        site: both clusters.
        folder: for kubeconfigs and logs.
        stack: ends the operators.
    """

    def __init__(self, site: Site[TenantServer], folder: Path, stack: AsyncExitStack) -> None:
        self.site = site
        self.tenant = site.tenants["a"]
        self._folder = folder
        self._stack = stack
        self._operators = 0

    @property
    def client(self) -> Client:
        """Return a client of the tenant."""
        return self.tenant.client

    def start_operator(self, program: Path) -> Operator:
        """Start an operator that works while it holds the Lease; the context kills it."""
        self._operators += 1
        kubeconfig = self._folder / "a.kubeconfig"
        log = self._folder / f"operator-{self._operators}.log"
        operator = Operator(program, kubeconfig, log, elects=True)
        operator.start()
        self._stack.callback(operator.kill)
        return operator

    async def serve_with_rival(self) -> AddressRange:
        """Create a range, SERVICES that show its addresses, and the rival; return the range."""
        await self.site.create_one_range()
        await self.tenant.create_services(*SERVICES)
        shown_addresses = await self.tenant.wait_until_served(*SERVICES)
        allocated_range = await self.site.wait_until_allocated(BALANCER.name)
        assert all(allocated_range.contains(address) for address in shown_addresses.values())
        await self.site.create_rival()
        return allocated_range

    async def delete_allocation(self) -> None:
        """Delete the allocation of the range."""
        await delete(self.site.client, IP_ALLOCATION, BALANCER)

    async def wait_for_message(self, words: str) -> None:
        """Wait until the deleted allocation reports why it is kept; fail if it is gone."""
        await self.site.wait_for_message(BALANCER.name, words)

    async def is_rival_waiting(self) -> bool:
        """Return whether the rival still waits."""
        rival = await self.site.find_allocation(RIVAL.name)
        return rival is not None and rival.status.phase == "Failed"

    async def wait_until_rival_has(self, allocated_range: AddressRange) -> None:
        """Wait until the rival has the range; check that no Service shows its addresses."""
        assert await self.site.wait_until_allocated(RIVAL.name) == allocated_range
        shown_addresses = await self.tenant.read_addresses()
        assert not any(allocated_range.contains(address) for address in shown_addresses.values())

    @asynccontextmanager
    async def refuse_updates(
        self, resource: str, path: str, condition: str
    ) -> AsyncIterator[None]:
        """Let an admission policy in the tenant refuse updates for the time of the context.

        Args:
            resource: of the refused updates: `GROUP/PLURAL/SUBRESOURCE`.
            path: of an object whose updates are refused, for dry runs.
            condition: a CEL expression that is true of updates that are allowed.
        """
        group, _, plural = resource.partition("/")
        rule = {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": ["UPDATE"],
            "resources": [plural],
        }
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": condition, "message": "refused for a while"}],
        }
        meta = {"name": "for-a-while"}
        await self.client.create(POLICIES, "", {"metadata": meta, "spec": spec})
        binding = {"policyName": meta["name"], "validationActions": ["Deny"]}
        await self.client.create(BINDINGS, "", {"metadata": meta, "spec": binding})
        plane = self.tenant.plane
        async with httpx.AsyncClient(
            base_url=plane.url,
            verify=plane.create_admin_tls(),
            headers=plane.build_admin_headers(),
        ) as http:

            async def is_refused() -> bool:
                answer = await http.patch(
                    path,
                    params={"dryRun": "All"},
                    json={"metadata": {"annotations": {"tried": "true"}}},
                    headers={"Content-Type": "application/merge-patch+json"},
                )
                return "refused for a while" in answer.text

            await until(is_refused, bool)
            yield
            await delete(self.client, BINDINGS, Key("", meta["name"]))
            await delete(self.client, POLICIES, Key("", meta["name"]))
            await until(is_refused, lambda refused: not refused)


@asynccontextmanager
async def run_with_rival(
    folder: Path, *flags: str, kinds: Sequence[Mapping[str, Any]] = ()
) -> AsyncIterator[RivalSetup]:
    """Run both clusters and the product; fail in the end if the records have violations.

    Args:
        folder: for kubeconfigs and logs.
        flags: of the product.
        kinds: the CRDs in the tenant; empty means those of LB-IPAM.
    """
    kinds = kinds or await read_lbipam_definitions(read_settings())
    async with (
        tenant_servers(
            folder, ["a"], kinds=kinds, offers=CILIUM_OFFERS, provider="cilium"
        ) as site,
        AsyncExitStack() as stack,
        site.record_clusters() as recording,
    ):
        async with site.controllers(*QUICK, *flags):
            yield RivalSetup(site, folder, stack)
        assert await recording.findings() == []
