"""Drives a provider of addresses by the API alone, and watches its claims.

The claims are IPAddressClaims of Cluster API, or IPClaims of metal3.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec
from aiohttp import ClientSession

from tests.bench.api import Api, Request
from tests.polling import until

NAMESPACE = "butler-system"
POOL = "bench"
PATIENCE = 600.0
MINUTE = 60.0
_GROUP = "ipam.cluster.x-k8s.io"
_METAL3 = "ipam.metal3.io"


@dataclass(frozen=True, slots=True)
class Provider:
    """The kinds of a provider, and one pool of it.

    Attributes:
        group: the API group of all kinds.
        claims: the path of the claims.
        addresses: the path of the IPAddresses.
        pools: the path of the pools.
        pool: the body of the pool, without name and namespace.
        claim: the body of a claim, without name and namespace.
    """

    group: str
    claims: str
    addresses: str
    pools: str
    pool: Mapping[str, Any]
    claim: Mapping[str, Any]


def _build_path(version: str, plural: str) -> str:
    return f"/apis/{version}/namespaces/{NAMESPACE}/{plural}"


IN_CLUSTER = Provider(
    _GROUP,
    _build_path(f"{_GROUP}/v1beta2", "ipaddressclaims"),
    addresses=_build_path(f"{_GROUP}/v1beta2", "ipaddresses"),
    pools=_build_path(f"{_GROUP}/v1alpha2", "inclusterippools"),
    pool={
        "apiVersion": f"{_GROUP}/v1alpha2",
        "kind": "InClusterIPPool",
        "spec": {"addresses": ["10.0.0.0/16"], "prefix": 16, "gateway": "10.0.0.1"},
    },
    claim={
        "apiVersion": f"{_GROUP}/v1beta2",
        "kind": "IPAddressClaim",
        "spec": {"poolRef": {"apiGroup": _GROUP, "kind": "InClusterIPPool", "name": POOL}},
    },
)
"""IPAddressClaims of an InClusterIPPool."""
METAL3 = Provider(
    _METAL3,
    _build_path(f"{_METAL3}/v1alpha1", "ipclaims"),
    addresses=_build_path(f"{_METAL3}/v1alpha1", "ipaddresses"),
    pools=_build_path(f"{_METAL3}/v1alpha1", "ippools"),
    pool={
        "apiVersion": f"{_METAL3}/v1alpha1",
        "kind": "IPPool",
        "spec": {
            "namePrefix": POOL,
            "pools": [{"subnet": "10.0.0.0/16", "gateway": "10.0.0.1"}],
            "prefix": 16,
        },
    },
    claim={
        "apiVersion": f"{_METAL3}/v1alpha1",
        "kind": "IPClaim",
        "spec": {"pool": {"name": POOL, "namespace": NAMESPACE}},
    },
)
"""IPClaims of an IPPool."""


class Name(msgspec.Struct):
    """A reference by name, or the metadata of which the name matters."""

    name: str = ""


class ClaimStatus(msgspec.Struct):
    """The status of a claim, with the reference to its IPAddress in either API."""

    addressRef: Name | None = None
    address: Name | None = None

    @property
    def address_name(self) -> str:
        """The name of the IPAddress of the claim; empty for none."""
        name = self.addressRef or self.address
        return "" if name is None else name.name


class Claim(msgspec.Struct):
    """An IPAddressClaim."""

    metadata: Name
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


class AddressSpec(msgspec.Struct):
    """The spec of an IPAddress."""

    address: str


class Address(msgspec.Struct):
    """An IPAddress."""

    metadata: Name
    spec: AddressSpec


class PoolCounts(msgspec.Struct):
    """The counts in the status of an InClusterIPPool."""

    used: int = -1


class PoolStatus(msgspec.Struct):
    """The status of a pool."""

    ipAddresses: PoolCounts | None = None
    indexes: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def used(self) -> int:
        """The number of addresses that claims hold."""
        return len(self.indexes) if self.ipAddresses is None else self.ipAddresses.used


class Pool(msgspec.Struct):
    """A pool."""

    metadata: Name
    status: PoolStatus = msgspec.field(default_factory=PoolStatus)


class WrongAnswerError(Exception):
    """Two claims have one address, or an IPAddress is left without a claim."""


@dataclass(slots=True)
class ClaimView:
    """What the watches have shown, and what the driver still expects.

    Attributes:
        unserved: names of claims that were created and have no address yet.
        undeleted: names of claims that were deleted and are still there.
        served_at: when each claim was first seen with its address, in seconds of the driver's
            clock.
        moved: when the last name was removed from `unserved` or `undeleted`, in seconds of the
            driver's clock.
        used: the number of used addresses in the status of the pool.
        addresses: names of the IPAddresses that exist.
    """

    unserved: set[str] = field(default_factory=set)
    undeleted: set[str] = field(default_factory=set)
    served_at: dict[str, float] = field(default_factory=dict)
    moved: float = 0.0
    used: int = -1
    addresses: set[str] = field(default_factory=set)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def take_claim(self, change: str, raw: bytes, now: float) -> None:
        """Record a change of a claim."""
        claim = msgspec.json.decode(raw, type=Claim)
        name = claim.metadata.name
        if change == "DELETED":
            self._remove_expected(self.undeleted, name, now)
        elif claim.status.address_name:
            self.served_at.setdefault(name, now)
            self._remove_expected(self.unserved, name, now)

    def take_address(self, change: str, raw: bytes, now: float) -> None:
        """Record a change of an IPAddress."""
        del now
        name = msgspec.json.decode(raw, type=Address).metadata.name
        if change == "DELETED":
            self.addresses.discard(name)
        else:
            self.addresses.add(name)
        self._announce_change()

    def take_pool(self, change: str, raw: bytes, now: float) -> None:
        """Record a change of the pool."""
        del change, now
        self.used = msgspec.json.decode(raw, type=Pool).status.used
        self._announce_change()

    async def until_done(self, used: int) -> None:
        """Wait until nothing is expected any more, and `used` IPAddresses exist and are counted.

        Raises:
            TimeoutError: that has not happened within PATIENCE.
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

    def _remove_expected(self, expected: set[str], name: str, now: float) -> None:
        if name in expected:
            expected.remove(name)
            self.moved = now
            self._announce_change()

    def _announce_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class ClaimDriver(Api):
    """Creates and deletes claims on one pool, and watches them.

    Args:
        session: the client of the API server.
        provider: the kinds of the claims and the pool.
    """

    def __init__(self, session: ClientSession, provider: Provider) -> None:
        super().__init__(session)
        self._provider = provider

    async def prepare(self) -> None:
        """Create the namespace and the pool."""
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        metadata = {"name": POOL, "namespace": NAMESPACE}
        provider = self._provider
        await self.ask("POST", provider.pools, {**provider.pool, "metadata": metadata})

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[ClaimView]:
        """Keep a view current while the context lasts."""
        view = ClaimView()
        async with anyio.create_task_group() as group:
            await group.start(self.watch, self._provider.claims, view.take_claim)
            await group.start(self.watch, self._provider.addresses, view.take_address)
            await group.start(self.watch, self._provider.pools, view.take_pool)
            yield view
            group.cancel_scope.cancel()

    async def create(self, view: ClaimView, names: Iterable[str]) -> None:
        """Create claims, many at once; expect that all are served."""
        expected = list(names)
        view.unserved |= set(expected)
        await self.ask_all(map(self._creation, expected))

    async def delete(self, view: ClaimView, names: Iterable[str]) -> None:
        """Delete claims, many at once; expect that all are gone."""
        expected = list(names)
        view.undeleted |= set(expected)
        await self.ask_all(map(self._deletion, expected))

    async def create_and_delete(self, view: ClaimView, names: Iterable[str]) -> None:
        """Create claims, many at once, and delete each as soon as it is there."""
        expected = list(names)
        view.undeleted |= set(expected)
        await self.ask_all(map(self._creation, expected), map(self._deletion, expected))

    async def check(self) -> None:
        """Check that every claim has an address of its own, and that no other IPAddress exists.

        If a claim is deleted while its IPAddress is written, the IPAddress may exist for a moment
        afterwards. So the check waits for up to a minute.

        Raises:
            WrongAnswerError: two claims have one address, or other IPAddresses stay.
        """
        try:
            await until(self._describe_violations, lambda wrong: not wrong, seconds=MINUTE)
        except AssertionError as late:
            raise WrongAnswerError(str(late)) from late

    async def _describe_violations(self) -> str:
        """Return the present violations; empty for none. Two holders of one address are final."""
        claims = [
            msgspec.json.decode(raw, type=Claim) for raw in await self.items(self._provider.claims)
        ]
        ip_addresses = [
            msgspec.json.decode(raw, type=Address)
            for raw in await self.items(self._provider.addresses)
        ]
        answers = {address.metadata.name: address.spec.address for address in ip_addresses}
        refs = [claim.status.address_name for claim in claims if claim.status.address_name]
        claim_addresses = [answers[name] for name in refs if name in answers]
        if len(set(claim_addresses)) != len(claim_addresses):
            raise WrongAnswerError("two claims have the same address")
        if sorted(refs) != sorted(answers) or len(refs) != len(claims):
            return f"{len(claims)} claims have {len(answers)} IPAddresses"
        return ""

    def _creation(self, name: str) -> Request:
        """Return the request that creates a claim."""
        metadata = {"name": name, "namespace": NAMESPACE}
        return "POST", self._provider.claims, {**self._provider.claim, "metadata": metadata}

    def _deletion(self, name: str) -> Request:
        """Return the request that deletes a claim."""
        return "DELETE", f"{self._provider.claims}/{name}", None
