"""Drives a provider of Cluster API's IPAM contract by the API alone, and watches its claims."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec

from tests.bench.api import Api, Request
from tests.polling import until

GROUP = "ipam.cluster.x-k8s.io"
NAMESPACE = "butler-system"
POOL = "bench"
PATIENCE = 600.0
MINUTE = 60.0
_CONTRACT = f"/apis/{GROUP}/v1beta2/namespaces/{NAMESPACE}"
CLAIMS = f"{_CONTRACT}/ipaddressclaims"
ADDRESSES = f"{_CONTRACT}/ipaddresses"
POOLS = f"/apis/{GROUP}/v1alpha2/namespaces/{NAMESPACE}/inclusterippools"


class Name(msgspec.Struct):
    """A reference by name, or the metadata of which the name matters."""

    name: str = ""


class ClaimStatus(msgspec.Struct):
    """What a claim was given."""

    addressRef: Name | None = None


class Claim(msgspec.Struct):
    """An IPAddressClaim."""

    metadata: Name
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


class AddressSpec(msgspec.Struct):
    """What an IPAddress says."""

    address: str


class Address(msgspec.Struct):
    """An IPAddress."""

    metadata: Name
    spec: AddressSpec


class Counts(msgspec.Struct):
    """What a pool counts."""

    used: int = -1


class PoolStatus(msgspec.Struct):
    """The status of a pool."""

    ipAddresses: Counts = msgspec.field(default_factory=Counts)


class Pool(msgspec.Struct):
    """An InClusterIPPool."""

    metadata: Name
    status: PoolStatus = msgspec.field(default_factory=PoolStatus)


class WrongAnswerError(Exception):
    """Two claims have one address, or an IPAddress is left without a claim."""


@dataclass(slots=True)
class View:
    """What the watches showed so far.

    Attributes:
        unserved: names of claims that were created and have no addressRef yet.
        undeleted: names of claims that were deleted and are still there.
        served: when each claim was first seen with its addressRef, in seconds of the driver's
            clock.
        moved: when the last of all these was crossed out.
        used: what the pool counts.
        addresses: names of the IPAddresses that are there.
    """

    unserved: set[str] = field(default_factory=set)
    undeleted: set[str] = field(default_factory=set)
    served: dict[str, float] = field(default_factory=dict)
    moved: float = 0.0
    used: int = -1
    addresses: set[str] = field(default_factory=set)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def take_claim(self, change: str, raw: bytes, now: float) -> None:
        """Note a change of a claim."""
        claim = msgspec.json.decode(raw, type=Claim)
        name = claim.metadata.name
        if change == "DELETED":
            self._cross_out(self.undeleted, name, now)
        elif claim.status.addressRef is not None:
            self.served.setdefault(name, now)
            self._cross_out(self.unserved, name, now)

    def take_address(self, change: str, raw: bytes, now: float) -> None:
        """Note a change of an IPAddress."""
        del now
        name = msgspec.json.decode(raw, type=Address).metadata.name
        if change == "DELETED":
            self.addresses.discard(name)
        else:
            self.addresses.add(name)
        self._move()

    def take_pool(self, change: str, raw: bytes, now: float) -> None:
        """Note a change of the pool."""
        del change, now
        self.used = msgspec.json.decode(raw, type=Pool).status.ipAddresses.used
        self._move()

    async def until_done(self, used: int) -> None:
        """Wait until all that was asked for is so, and there are so many IPAddresses.

        Raises:
            TimeoutError: it is not.
        """
        with anyio.move_on_after(PATIENCE):
            while self.unserved or self.undeleted or {self.used, len(self.addresses)} != {used}:
                changed = self._changed
                await changed.wait()
            return
        raise TimeoutError(
            f"after {PATIENCE:.0f} s {len(self.unserved)} claims wait, {len(self.undeleted)} are"
            f" being deleted, and the pool counts {self.used} addresses, not {used}"
        )

    def _cross_out(self, expected: set[str], name: str, now: float) -> None:
        if name in expected:
            expected.remove(name)
            self.moved = now
            self._move()

    def _move(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class Claimant(Api):
    """The one who claims addresses of one pool."""

    async def prepare(self) -> None:
        """Make the namespace and the pool."""
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        pool = {
            "apiVersion": f"{GROUP}/v1alpha2",
            "kind": "InClusterIPPool",
            "metadata": {"name": POOL, "namespace": NAMESPACE},
            "spec": {"addresses": ["10.0.0.0/16"], "prefix": 16, "gateway": "10.0.0.1"},
        }
        await self.ask("POST", POOLS, pool)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[View]:
        """Keep a view current while the context lasts."""
        view = View()
        async with anyio.create_task_group() as group:
            await group.start(self.watch, CLAIMS, view.take_claim)
            await group.start(self.watch, ADDRESSES, view.take_address)
            await group.start(self.watch, POOLS, view.take_pool)
            yield view
            group.cancel_scope.cancel()

    async def create(self, view: View, names: Iterable[str]) -> None:
        """Create claims, many at once; expect that all are served."""
        wanted = list(names)
        view.unserved |= set(wanted)
        await self.ask_all(map(creation, wanted))

    async def delete(self, view: View, names: Iterable[str]) -> None:
        """Delete claims, many at once; expect that all are gone."""
        wanted = list(names)
        view.undeleted |= set(wanted)
        await self.ask_all(map(deletion, wanted))

    async def create_and_delete(self, view: View, names: Iterable[str]) -> None:
        """Create claims, many at once, and delete each as soon as it is there."""
        wanted = list(names)
        view.undeleted |= set(wanted)
        await self.ask_all(map(creation, wanted), map(deletion, wanted))

    async def check(self) -> None:
        """Check that every claim has an address of its own, and that there are no other addresses.

        An IPAddress may still be on its way for a claim that was deleted while its address was
        written; it has to be taken away again.

        Raises:
            WrongAnswerError: it is not so, or not within a minute.
        """
        try:
            await until(self._wrong, lambda wrong: not wrong, seconds=MINUTE)
        except AssertionError as late:
            raise WrongAnswerError(str(late)) from late

    async def _wrong(self) -> str:
        """Return what is wrong now; empty for nothing. Two holders of one address are final."""
        claims = [msgspec.json.decode(one, type=Claim) for one in await self.items(CLAIMS)]
        found = [msgspec.json.decode(one, type=Address) for one in await self.items(ADDRESSES)]
        answers = {one.metadata.name: one.spec.address for one in found}
        refs = [one.status.addressRef.name for one in claims if one.status.addressRef]
        held = [answers[one] for one in refs if one in answers]
        if len(set(held)) != len(held):
            raise WrongAnswerError("two claims have the same address")
        if sorted(refs) != sorted(answers) or len(refs) != len(claims):
            return f"{len(claims)} claims have {len(answers)} IPAddresses"
        return ""


def creation(name: str) -> Request:
    """Return the request that creates a claim."""
    ref = {"apiGroup": GROUP, "kind": "InClusterIPPool", "name": POOL}
    body: dict[str, Any] = {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "IPAddressClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"poolRef": ref},
    }
    return "POST", CLAIMS, body


def deletion(name: str) -> Request:
    """Return the request that deletes a claim."""
    return "DELETE", f"{CLAIMS}/{name}", None
