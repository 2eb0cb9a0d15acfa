"""A tenant with the real LB-IPAM, the product beside it, and a rival that waits for its addresses.

    async with contest(folder) as race:
        race.operator(program)
        allocated_range = await race.begin()
        await race.delete()
        await race.lost(allocated_range)          # to the rival, which waits for it

Both sides are recorded all the while (tests/audit). When the context ends, no address may have
been free, or the rival's, while a Service showed it.
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
from envtest.lbipam import lbipam_definitions
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


class Contest:
    """A range of tenant `a`, whose Services show addresses of it, and a rival that wants it.

    Args:
        here: both clusters.
        folder: for kubeconfigs and logs.
        stack: ends the operators.
    """

    def __init__(self, here: Site[TenantServer], folder: Path, stack: AsyncExitStack) -> None:
        self.here = here
        self.tenant = here.tenants["a"]
        self._folder = folder
        self._stack = stack
        self._operators = 0

    @property
    def client(self) -> Client:
        """Return a client of the tenant."""
        return self.tenant.client

    def operator(self, program: Path) -> Operator:
        """Start an operator that works while it holds the Lease; it is killed in the end."""
        self._operators += 1
        kubeconfig = self._folder / "a.kubeconfig"
        log = self._folder / f"operator-{self._operators}.log"
        operator = Operator(program, kubeconfig, log, elects=True)
        operator.start()
        self._stack.callback(operator.kill)
        return operator

    async def begin(self) -> AddressRange:
        """Return the range, once Services show its addresses and the rival waits for them."""
        await self.here.offer_one_range()
        await self.tenant.serve(*SERVICES)
        shown_addresses = await self.tenant.wait_until_served(*SERVICES)
        allocated_range = await self.here.wait_until_allocated(BALANCER.name)
        assert all(allocated_range.contains(address) for address in shown_addresses.values())
        await self.here.create_rival()
        return allocated_range

    async def delete(self) -> None:
        """Delete the allocation of the range."""
        await delete(self.here.client, IP_ALLOCATION, BALANCER)

    async def waits_because(self, words: str) -> None:
        """Wait until the allocation says why it is kept; fail if it is not."""
        await self.here.waits_because(BALANCER.name, words)

    async def is_kept(self) -> bool:
        """Return whether the rival still waits."""
        rival = await self.here.allocation(RIVAL.name)
        return rival is not None and rival.status.phase == "Failed"

    async def lost(self, allocated_range: AddressRange) -> None:
        """Wait until the rival has the very range."""
        assert await self.here.wait_until_allocated(RIVAL.name) == allocated_range
        shown_addresses = await self.tenant.addresses()
        assert not any(allocated_range.contains(address) for address in shown_addresses.values())

    @asynccontextmanager
    async def refuse(self, resource: str, path: str, condition: str) -> AsyncIterator[None]:
        """Have the tenant refuse writes for the time of the context, as an admission policy does.

        Args:
            resource: whose updates are refused, with its group: `GROUP/PLURAL/SUBRESOURCE`.
            path: of an object for which they are.
            condition: an expression of CEL that has to hold for updates that are not refused.
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
            base_url=plane.url, verify=plane.tls(), headers=plane.admin_headers()
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
async def contest(
    folder: Path, *flags: str, kinds: Sequence[Mapping[str, Any]] = ()
) -> AsyncIterator[Contest]:
    """Start both clusters and the product; what was recorded is judged in the end.

    Args:
        folder: for kubeconfigs and logs.
        flags: of the product.
        kinds: the definitions in the tenant; empty for those of LB-IPAM.
    """
    kinds = kinds or await lbipam_definitions(read_settings())
    async with (
        tenant_servers(
            folder, ["a"], kinds=kinds, offers=CILIUM_OFFERS, provider="cilium"
        ) as here,
        AsyncExitStack() as stack,
        here.record_clusters() as recording,
    ):
        async with here.controllers(*QUICK, *flags):
            yield Contest(here, folder, stack)
        assert await recording.findings() == []
