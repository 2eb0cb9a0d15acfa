"""Log lines about addresses that are free because a person or another program removed objects.

A *record* is the address that the status of a claim states. An address is free once no claim
records it and no IPAddress has it. A release by this program is logged when it happens
(`addressobjects.py`). This module logs the other releases: a person removed the finalizers of a
claim or its IPAddress.
"""

from collections.abc import Hashable, Mapping
from typing import Generic, Protocol, TypeVar

from controller.meta import Key, Object
from reconcilers.integrations.core.claimreading import ClaimSource, PoolLayouts
from reconcilers.reporting.releaselog import GoneHolders

PoolT = TypeVar("PoolT", bound=Hashable)
SpaceT = TypeVar("SpaceT", bound=PoolLayouts)
ClaimT = TypeVar("ClaimT", bound=Object)
AddressT = TypeVar("AddressT", bound=Object)
ClaimT_contra = TypeVar("ClaimT_contra", bound=Object, contravariant=True)
AddressT_contra = TypeVar("AddressT_contra", bound=Object, contravariant=True)


class GoneLines(Protocol[ClaimT_contra, AddressT_contra]):
    """Describes claims of one kind and their IPAddresses for the log lines."""

    def find_recorded_address(self, claim: ClaimT_contra) -> Key | None:
        """Return the key of the IPAddress whose address a claim records; None without a record."""
        ...

    def describe_claim(self, gone: ClaimT_contra) -> Mapping[str, str] | None:
        """Return the fields of the line about a claim; None if its address is not ours."""
        ...

    def describe_address(self, gone: AddressT_contra) -> Mapping[str, str] | None:
        """Return the fields of the line about an IPAddress; None if it is not ours."""
        ...


class GoneAddresses(Generic[PoolT, SpaceT, ClaimT, AddressT]):
    """Logs claims and IPAddresses of one kind that disappear without a release by this program.

    Args:
        source: the caches of these claims and IPAddresses.
        lines: returns the fields of the log lines.
        logged: the uids of claims and IPAddresses whose release has a line, until they are gone.
    """

    def __init__(
        self,
        source: ClaimSource[PoolT, SpaceT, ClaimT, AddressT],
        lines: GoneLines[ClaimT, AddressT],
        logged: set[str],
    ) -> None:
        self._source = source
        self._lines = lines
        claims, addresses = source.claims, source.addresses
        claims.subscribe(
            GoneHolders(f"released {claims.resource.kind}", self._describe_claim, logged).log
        )
        addresses.subscribe(
            GoneHolders(f"released {addresses.resource.kind}", self._describe_address, logged).log
        )

    def _describe_claim(self, gone: ClaimT) -> Mapping[str, str] | None:
        """Return the fields of the line about a claim that is gone.

        None if no address became free, or if the address is not of a pool that we serve.
        """
        key, addresses = self._lines.find_recorded_address(gone), self._source.addresses
        if key is None or not self._source.fields.has_address(gone):  # the claim had no address
            return None
        # The IPAddress still has the address. Its own line follows when it is gone, too.
        if key in addresses or key in addresses.unreadable:
            return None
        return self._lines.describe_claim(gone)

    def _describe_address(self, gone: AddressT) -> Mapping[str, str] | None:
        """Return the fields of the line about an IPAddress that is gone.

        None if its claim has or may get the address, or if it is not of a pool that we serve.
        """
        key, claims = self._source.fields.find_claim_of_address(gone), self._source.claims
        # A claim that cannot be decoded may record the address.
        if key is not None and key in claims.unreadable:
            return None
        claim = None if key is None else claims.get(key)
        if claim is not None and self._may_have_address(claim, gone.metadata.key):
            return None
        return self._lines.describe_address(gone)

    def _may_have_address(self, claim: ClaimT, address: Key) -> bool:
        """Return whether a claim has the address of an IPAddress, or may still get it.

        Args:
            address: the key of the IPAddress.
        """
        # A claim that is being deleted without an address never gets one.
        if claim.metadata.is_terminating and not self._source.fields.has_address(claim):
            return False
        # A claim without a record may still get the address by a promise.
        return self._lines.find_recorded_address(claim) in {None, address}
