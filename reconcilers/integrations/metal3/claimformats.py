"""Read and render claims of both kinds and their IPAddresses, through one interface.

A *claim format* reads and renders one kind of claims and the kind of their IPAddresses. metal3's
IPClaim shows the name of its IPAddress or an errorMessage. Cluster API's IPAddressClaim shows the
name of its IPAddress and a condition Ready. Names, labels and finalizers follow metal3 for both
kinds, so that metal3's controller can take the objects over again.
"""

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from typing_extensions import override

from allocator import AddressRange
from controller.conditions import TRUE
from controller.meta import Key, Object, OwnerReference
from reconcilers.integrations.clusterapi.answers import make_owners
from reconcilers.integrations.clusterapi.api import IPAddress, IPAddressClaim, PoolOutline
from reconcilers.integrations.clusterapi.contractkinds import ContractKinds
from reconcilers.integrations.clusterapi.statuses import (
    is_finding_shown,
    read_shown_reason,
    render_granted,
    render_ready,
)
from reconcilers.integrations.core.claimproblems import (
    POOL_NOT_READY,
    ClaimProblem,
)
from reconcilers.integrations.core.claimreading import ClaimFields
from reconcilers.integrations.metal3.addressnames import format_canonical
from reconcilers.integrations.metal3.api import (
    ADDRESS_FINALIZER,
    ADDRESSES,
    CLAIM_FINALIZER,
    CLAIMS,
    CONTRACT_ADDRESS_FINALIZER,
    CONTRACT_CLAIM_FINALIZER,
    GROUP,
    NOT_CREATED,
    POOL,
    POOLS,
    REQUESTED_ADDRESS,
    Metal3Address,
    Metal3Claim,
    Metal3Outline,
    Metal3Pool,
    find_pool_by_object_ref,
    find_pool_by_pool_ref,
)
from reconcilers.integrations.metal3.entries import AddressSettings

EitherClaim = Metal3Claim | IPAddressClaim
"""A claim of an IPPool."""
EitherAddress = Metal3Address | IPAddress
"""An IPAddress of an IPPool."""
ClaimT = TypeVar("ClaimT", bound=EitherClaim)
AddressT = TypeVar("AddressT", bound=EitherAddress)


class ClaimFormat(ClaimFields[Key, ClaimT, AddressT]):
    """Reads and renders claims of one kind and their IPAddresses, without any cache.

    `failure` and `shows_obstacles` are those of `ClaimStatuses`. A message about an IPAddress in
    the way is not shown: a reader of an IPClaim would give up, though the next pass may succeed.
    """

    claim_finalizer: str
    address_finalizer: str
    failure = f"{NOT_CREATED}. "
    shows_obstacles = False

    @override
    def get_namespace(self, pool: Key) -> str:
        return pool.namespace

    @abstractmethod
    def get_address_name(self, claim: ClaimT) -> str:
        """Return the name of the IPAddress in the status of a claim; empty for none."""

    @abstractmethod
    def make_error_identity(self, claim: ClaimT) -> Hashable:
        """Return a value that is equal for claims that show equal errors.

        The pool decides once for waiting claims with equal values: they get equal refusals.
        """

    @abstractmethod
    def read_error(self, claim: ClaimT) -> str:
        """Return the message of the error that a claim shows; empty if it shows none."""

    @abstractmethod
    def is_problem_shown(self, claim: ClaimT, problem: ClaimProblem) -> bool:
        """Return whether a problem need not be written to a claim.

        The claim shows it already, or claims of this kind must not show it.
        """

    @abstractmethod
    def render_problem_status(
        self, claim: ClaimT, problem: ClaimProblem, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch of the status of a claim that has no address.

        Args:
            claim: as it was read.
            problem: why it has no address.
            now: the time, for conditions.
        """

    @abstractmethod
    def render_grant_status(
        self, claim: ClaimT, address: AddressT, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch of the status of a claim that gets an IPAddress.

        Args:
            claim: as it was read.
            address: its IPAddress.
            now: the time.
        """

    @abstractmethod
    def render_correction(
        self, claim: ClaimT, address: AddressT, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch that corrects the status of a claim that has its IPAddress.

        An IPClaim may still show an error; an IPAddressClaim may lack its condition Ready.

        Args:
            claim: its status names the IPAddress.
            address: the IPAddress.
            now: the time, for conditions.

        Returns:
            The patch; empty if the status is right.
        """

    @abstractmethod
    def make_owner_references(
        self, claim: ClaimT, pool: Metal3Pool
    ) -> tuple[OwnerReference, OwnerReference]:
        """Return the owner references of the IPAddress of a claim: the pool, then the claim."""

    @abstractmethod
    def render_spec(
        self, claim: ClaimT, pool: Key, address: AddressRange, settings: AddressSettings
    ) -> Mapping[str, Any]:
        """Return the spec of a new IPAddress.

        Args:
            claim: the claim that gets the IPAddress.
            address: a single address.
            settings: the gateway, prefix and DNS servers of the IPAddress.
        """

    @abstractmethod
    def find_settings(self, address: AddressT) -> AddressSettings:
        """Return the gateway, prefix and DNS servers of an IPAddress."""

    def is_claim_reference(self, owner: OwnerReference) -> bool:
        """Return whether an owner is of the kind of claims."""
        group = owner.apiVersion.rpartition("/")[0]
        return (group, owner.kind) == (self.claims.group, self.claims.kind)

    def is_owner_kind(self, owner: OwnerReference) -> bool:
        """Return whether an owner is an IPPool or a claim: an IPAddress has one owner of each."""
        return is_pool_reference(owner) or self.is_claim_reference(owner)

    def find_owning_claim(self, address: AddressT) -> OwnerReference | None:
        """Return the claim among the owners of an IPAddress; None if there is none."""
        owners = address.metadata.ownerReferences
        return next((owner for owner in owners if self.is_claim_reference(owner)), None)

    def is_made_for_claim(self, address: AddressT) -> bool:
        """Return whether a controller made or adopted an IPAddress, so that it may be deleted.

        A person may create an IPAddress before its claim, and make the pool its owner for
        `clusterctl move`. So if the pool is the only owner, a controller made the IPAddress only
        if it has our finalizer, too.
        """
        if self.find_owning_claim(address) is not None:
            return True
        owners = address.metadata.ownerReferences
        has_finalizer = self.address_finalizer in address.metadata.finalizers
        return has_finalizer and any(map(is_pool_reference, owners))

    def is_address_of_claim(self, address: AddressT, claim: ClaimT) -> bool:
        """Return whether an IPAddress names a claim, and no earlier claim of that name owns it.

        An earlier claim of the same name has another uid.
        """
        if self.find_claim_of_address(address) != claim.metadata.key:
            return False
        owner = self.find_owning_claim(address)
        return owner is None or owner.uid == claim.metadata.uid

    def describe_grant(self, claim: ClaimT, address: AddressT) -> str:
        """Return the sentence of the event about a claim that gets an IPAddress."""
        del claim
        return f"Allocated {address.spec.address}"

    @override
    def is_waiting(self, claim: ClaimT) -> bool:
        """Return whether a claim has our finalizer, no address, and is not being deleted."""
        # Without finalizer, the claim could be deleted without releasing its address.
        meta = claim.metadata
        has_finalizer = self.claim_finalizer in meta.finalizers
        return has_finalizer and not meta.is_terminating and not self.get_address_name(claim)

    @override
    def has_address(self, claim: ClaimT) -> bool:
        """Return whether the status of a claim names an IPAddress that it has not released."""
        # A claim that is being deleted holds its address until our finalizer is removed.
        meta = claim.metadata
        is_released = meta.is_terminating and self.claim_finalizer not in meta.finalizers
        return bool(self.get_address_name(claim)) and not is_released

    def get_requested_address(self, claim: ClaimT) -> str:
        """Return the address that a claim asks for by its annotation; empty for none."""
        return str(claim.metadata.annotations.get(REQUESTED_ADDRESS, "")).strip()


class IPClaimFormat(ClaimFormat[Metal3Claim, Metal3Address]):
    """metal3's IPClaims and IPAddresses."""

    claim_finalizer = CLAIM_FINALIZER
    address_finalizer = ADDRESS_FINALIZER

    def __init__(self) -> None:
        super().__init__(CLAIMS, ADDRESSES)

    @override
    def find_pool_of_claim(self, claim: Metal3Claim) -> Key | None:
        return find_pool_by_object_ref(claim.spec.pool, claim.metadata.namespace)

    @override
    def find_pool_of_address(self, address: Metal3Address) -> Key | None:
        """Return the pool that an IPAddress names; None if it names none."""
        name = address.spec.pool.name
        return Key(address.metadata.namespace, name) if name else None

    @override
    def find_pool_of_outline(self, outline: Object) -> Key | None:
        """Return the pool that an undecodable claim or IPAddress names; None if it names none."""
        assert isinstance(outline, Metal3Outline), "both kinds have this type for outlines"
        name = outline.spec.pool.name
        return Key(outline.metadata.namespace, name) if name else None

    @override
    def find_claim_of_address(self, address: Metal3Address) -> Key | None:
        """Return the claim that an IPAddress names; None if it names none."""
        name = address.spec.claim.name
        return Key(address.metadata.namespace, name) if name else None

    @override
    def get_address_name(self, claim: Metal3Claim) -> str:
        return claim.status.address.name if claim.status.address is not None else ""

    @override
    def make_error_identity(self, claim: Metal3Claim) -> Hashable:
        return claim.status.errorMessage

    @override
    def read_error(self, claim: Metal3Claim) -> str:
        return claim.status.errorMessage

    @override
    def is_problem_shown(self, claim: Metal3Claim, problem: ClaimProblem) -> bool:
        """Return whether an IPClaim shows a problem already, or must not show it."""
        # The reader of an errorMessage gives up for good, so a pool that is not ready yet is
        # reported by an event alone.
        is_silent = problem.reason == POOL_NOT_READY
        return is_silent or claim.status.errorMessage == problem.message

    @override
    def render_problem_status(
        self, claim: Metal3Claim, problem: ClaimProblem, now: datetime
    ) -> Mapping[str, Any]:
        return {"errorMessage": problem.message}

    @override
    def render_grant_status(
        self, claim: Metal3Claim, address: Metal3Address, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch that names the IPAddress and removes an earlier errorMessage."""
        meta = address.metadata
        reference = {"name": meta.name, "namespace": meta.namespace}
        return {"address": reference, "errorMessage": None}

    @override
    def render_correction(
        self, claim: Metal3Claim, address: Metal3Address, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch that removes an errorMessage; empty if the claim shows none."""
        return {"errorMessage": None} if claim.status.errorMessage else {}

    @override
    def make_owner_references(
        self, claim: Metal3Claim, pool: Metal3Pool
    ) -> tuple[OwnerReference, OwnerReference]:
        """Return the owner references of an IPAddress: the pool, then the IPClaim."""
        meta = claim.metadata
        return (
            OwnerReference(POOLS.api_version, POOL, pool.metadata.name, pool.metadata.uid),
            OwnerReference(CLAIMS.api_version, CLAIMS.kind, meta.name, meta.uid),
        )

    @override
    def render_spec(
        self, claim: Metal3Claim, pool: Key, address: AddressRange, settings: AddressSettings
    ) -> Mapping[str, Any]:
        """Return the spec of a new IPAddress, without settings that the pool does not have."""
        meta = claim.metadata
        spec: dict[str, Any] = {
            "address": format_canonical(address),
            "pool": {"name": pool.name, "namespace": pool.namespace},
            "claim": {"name": meta.name, "namespace": meta.namespace},
        }
        if settings.prefix:
            spec["prefix"] = settings.prefix
        if settings.gateway:
            spec["gateway"] = settings.gateway
        if settings.dns_servers:
            spec["dnsServers"] = list(settings.dns_servers)
        return spec

    @override
    def find_settings(self, address: Metal3Address) -> AddressSettings:
        """Return the gateway, prefix and DNS servers of an IPAddress."""
        spec = address.spec
        return AddressSettings(spec.prefix, spec.gateway, spec.dnsServers)


class IPAddressClaimFormat(ClaimFormat[IPAddressClaim, IPAddress]):
    """Cluster API's IPAddressClaims and IPAddresses."""

    claim_finalizer = CONTRACT_CLAIM_FINALIZER
    address_finalizer = CONTRACT_ADDRESS_FINALIZER

    @override
    def find_pool_of_claim(self, claim: IPAddressClaim) -> Key | None:
        return find_pool_by_pool_ref(claim.spec.poolRef, claim.metadata.namespace)

    @override
    def find_pool_of_address(self, address: IPAddress) -> Key | None:
        return find_pool_by_pool_ref(address.spec.poolRef, address.metadata.namespace)

    @override
    def find_pool_of_outline(self, outline: Object) -> Key | None:
        """Return the IPPool that an undecodable object names; None if it names something else."""
        assert isinstance(outline, PoolOutline), "both kinds have this type for outlines"
        return find_pool_by_pool_ref(outline.spec.poolRef, outline.metadata.namespace)

    @override
    def find_claim_of_address(self, address: IPAddress) -> Key | None:
        """Return the claim that an IPAddress names; None if it names none."""
        name = address.spec.claimRef.name
        return Key(address.metadata.namespace, name) if name else None

    @override
    def get_address_name(self, claim: IPAddressClaim) -> str:
        return claim.address_name

    @override
    def make_error_identity(self, claim: IPAddressClaim) -> Hashable:
        return read_shown_reason(claim)

    @override
    def read_error(self, claim: IPAddressClaim) -> str:
        """Return the message of condition Ready unless Ready is True; empty without condition."""
        status, _, message = read_shown_reason(claim)
        return "" if status == TRUE else message

    @override
    def is_problem_shown(self, claim: IPAddressClaim, problem: ClaimProblem) -> bool:
        """Return whether condition Ready shows a problem already."""
        return is_finding_shown(claim, problem.make_ready_finding())

    @override
    def render_problem_status(
        self, claim: IPAddressClaim, problem: ClaimProblem, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch of a claim's status that shows a problem in condition Ready."""
        finding = problem.make_ready_finding()
        return render_ready(claim, finding, version=self.claims.version, now=now)

    @override
    def render_grant_status(
        self, claim: IPAddressClaim, address: IPAddress, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch of a claim's status that names its IPAddress, with Ready as True."""
        return render_granted(claim, address, version=self.claims.version, now=now)

    @override
    def render_correction(
        self, claim: IPAddressClaim, address: IPAddress, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch that makes Ready True again; empty if it is True."""
        status, _, _ = read_shown_reason(claim)
        return {} if status == TRUE else self.render_grant_status(claim, address, now)

    @override
    def make_owner_references(
        self, claim: IPAddressClaim, pool: Metal3Pool
    ) -> tuple[OwnerReference, OwnerReference]:
        """Return the owner references of an IPAddress: the pool, then the IPAddressClaim."""
        of_claim, of_pool = make_owners(claim, self.claims, pool=pool, pool_kind=POOLS)
        return of_pool, of_claim

    @override
    def render_spec(
        self, claim: IPAddressClaim, pool: Key, address: AddressRange, settings: AddressSettings
    ) -> Mapping[str, Any]:
        """Return the spec of a new IPAddress; without gateway if the pool has none."""
        spec: dict[str, Any] = {
            "address": format_canonical(address),
            "prefix": settings.prefix,
            "poolRef": {"apiGroup": GROUP, "kind": POOL, "name": pool.name},
            "claimRef": {"name": claim.metadata.name},
        }
        if settings.gateway:
            spec["gateway"] = settings.gateway
        return spec

    @override
    def find_settings(self, address: IPAddress) -> AddressSettings:
        return AddressSettings(address.spec.prefix, address.spec.gateway)


def find_contract_format(contract: ContractKinds) -> IPAddressClaimFormat | None:
    """Return IPAddressClaims as claims of IPPools; None if they are not served.

    Args:
        contract: the kinds of Cluster API's contract that are served.
    """
    if contract.claims is None or contract.addresses is None:
        return None
    return IPAddressClaimFormat(contract.claims, contract.addresses)


def is_pool_reference(owner: OwnerReference) -> bool:
    """Return whether an owner reference is to an IPPool, in any version."""
    return (owner.apiVersion.rpartition("/")[0], owner.kind) == (GROUP, POOL)
