"""How passes over pools write IPAddressClaims and their IPAddresses.

`core/claimwrites.py` has the order of the writes: first the IPAddress, then the claim's status.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from typing_extensions import override

from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.meta import Object
from controller.resource import Resource
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.clusterapi.addresses import PoolSpace, to_blocks
from reconcilers.integrations.clusterapi.answers import Answers, make_ready_finding, render_spec
from reconcilers.integrations.clusterapi.api import IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import ClaimCaches, get_promised_address
from reconcilers.integrations.clusterapi.statuses import (
    is_finding_shown,
    is_waiting,
    render_granted,
    render_message,
    render_ready,
)
from reconcilers.integrations.core.claimproblems import POOL_NOT_READY, ClaimProblem
from reconcilers.integrations.core.claimwrites import AddressInTheWay, ClaimStatuses, ClaimWrites
from reconcilers.promises.journal import Promise

PoolT = TypeVar("PoolT", bound=Object)


class ContractStatuses(ClaimStatuses[IPAddressClaim, IPAddress]):
    """Reads and renders condition Ready of IPAddressClaims of Cluster API's IPAM contract.

    A claim that another provider served stays Ready, whatever keeps this program from serving it.
    """

    failure = ""
    shows_obstacles = True

    def __init__(self, caches: ClaimCaches) -> None:
        self._caches = caches

    @property
    @override
    def claims(self) -> Resource[IPAddressClaim]:
        return self._caches.claim_kind

    @override
    def is_waiting(self, claim: IPAddressClaim) -> bool:
        return is_waiting(claim)

    @override
    def is_problem_shown(self, claim: IPAddressClaim, problem: ClaimProblem) -> bool:
        return is_finding_shown(claim, make_ready_finding(claim, self._caches, problem))

    @override
    def render_problem_status(
        self, claim: IPAddressClaim, problem: ClaimProblem, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch of a claim's status that shows a problem in condition Ready."""
        finding = make_ready_finding(claim, self._caches, problem)
        return render_ready(claim, finding, version=self.claims.version, now=now)

    @override
    def render_grant_status(
        self, claim: IPAddressClaim, address: IPAddress, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch of a claim's status that names its IPAddress, with Ready as True."""
        return render_granted(claim, address, version=self.claims.version, now=now)

    @override
    def describe_grant(self, claim: IPAddressClaim, address: IPAddress) -> str:
        return render_message(address.spec.address, address.spec.prefix, claim.spec.poolRef)


def make_claim_writes(
    pools: Resource[PoolT],
    client: Client,
    caches: ClaimCaches,
    *,
    recorder: Recorder,
    clock: Clock,
    settings: PoolSettings,
) -> ClaimWrites[IPAddressClaim, IPAddress, PoolT, PoolSpace]:
    """Return the writer of IPAddressClaims and IPAddresses for passes over pools of one kind."""
    answers, statuses = Answers(client, caches), ContractStatuses(caches)

    async def ensure_address(
        claim: IPAddressClaim, promise: Promise, pool: PoolT, space: PoolSpace
    ) -> IPAddress:
        """Create or adopt the IPAddress of a promise, and return it.

        Raises:
            AddressInTheWay: an IPAddress of the claim's name cannot answer the claim, or has
                another address than the promise.
            ControllerError: a request failed.
        """
        promised = get_promised_address(promise)
        spec = render_spec(promised.start_text, space.prefix, space.gateway)
        address = await answers.ensure(claim, pool, pools, spec)
        blocks = space.find_blocks(address.spec.address, address.spec.prefix)
        # An existing IPAddress keeps its address: the claim must not record two of them.
        if blocks != to_blocks(space, promised):
            raise AddressInTheWay(
                f"IPAddress {address.metadata.key} exists and is {address.spec.address},"
                f" not {promised.start_text}"
            )
        return address

    async def void(claim: IPAddressClaim) -> IPAddressClaim:
        """Write the claim and return it, so that promises to earlier versions of it are void."""
        # The server gives an unchanged object no new resourceVersion. The time in the message,
        # to the microsecond, makes every such write a change.
        now, pool = clock.now(), claim.spec.poolRef
        message = (
            f"{pool.kind} {pool.name} has no valid record of its promises;"
            f" promises before {now.isoformat()} are void"
        )
        problem = ClaimProblem(POOL_NOT_READY, message)
        status = statuses.render_problem_status(claim, problem, now)
        return await client.patch_status(caches.claim_kind, claim, status)

    return ClaimWrites(
        client,
        pools,
        statuses=statuses,
        ensure_address=ensure_address,
        void=void,
        recorder=recorder,
        clock=clock,
        settings=settings,
    )
