"""Write what passes over IPPools decide about claims: first the IPAddress, then the status.

`core/claimwrites.py` has the order of the writes. To void a promise is to write the claim once,
because the promise names the version of the claim. The write sets an annotation to the time. An
errorMessage instead would make readers of the claim give up, and a write without a change would
make no new version.
"""

from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.meta import Version
from reconcilers.api import names
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.core.claimwrites import ClaimWrites
from reconcilers.integrations.metal3.addresswrites import AddressWrites
from reconcilers.integrations.metal3.api import POOLS, Metal3Pool
from reconcilers.integrations.metal3.caches import IPPoolClaimCaches
from reconcilers.integrations.metal3.claimformats import AddressT, ClaimT
from reconcilers.integrations.metal3.entries import EntrySpace
from reconcilers.promises.journal import Promise

Metal3ClaimWrites = ClaimWrites[ClaimT, AddressT, Metal3Pool, EntrySpace]
"""Writes what passes over IPPools decide about claims of one kind."""


def make_claim_writes(
    client: Client,
    caches: IPPoolClaimCaches[ClaimT, AddressT],
    addresses: AddressWrites[ClaimT, AddressT],
    *,
    recorder: Recorder,
    clock: Clock,
    settings: PoolSettings,
) -> Metal3ClaimWrites[ClaimT, AddressT]:
    """Return the writer of what passes over IPPools decide about claims of one kind."""
    claim_format = caches.claim_format

    async def ensure_address(
        claim: ClaimT, promise: Promise, pool: Metal3Pool, space: EntrySpace
    ) -> AddressT:
        """Create or adopt the IPAddress of a promise, and return it."""
        [part] = promise.ranges  # a claim gets one address
        return await addresses.ensure(claim, pool, space, part.range)

    async def void(claim: ClaimT) -> ClaimT:
        """Write the claim and return it, so that promises to earlier versions of it are void."""
        annotation = {names.ANNOTATION_PROMISES_VOID: clock.now().isoformat()}
        patch = {"metadata": {"annotations": annotation}}
        return await client.patch(claim_format.claims, Version.from_object(claim), patch)

    return ClaimWrites(
        client,
        POOLS,
        statuses=claim_format,
        ensure_address=ensure_address,
        void=void,
        recorder=recorder,
        clock=clock,
        settings=settings,
    )
