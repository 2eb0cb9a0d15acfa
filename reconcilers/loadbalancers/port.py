"""The load balancer of a tenant, as the pass, the release check and the commands see it.

An adapter implements this for a backend, one kind of load balancer, in a package beside this
module. `LoadBalancerKind` has everything that needs no client, because Services are judged out of
a watch. A `LoadBalancer` is made for one tenant and one pass or check, with the tenant's client
and the adapter's own memory of that tenant. It decides nothing about IPAllocations: the caller
passes ranges and gets findings.

A balancer raises BalancerBlocked, Conflict, and the ControllerErrors of the tenant.

Words of the port:

offer     an object in a tenant that makes addresses available there, a pool for example
mark      the resourceVersion at which the release of an IPAllocation's range began
basis     the position of the cache of IPAllocations from which an offer was computed; it is
          written on the offer, and a writer with a lower basis gives up
entry     one range in an offer, as text: `start-end`
position  the resourceVersion up to which a cache or a LIST has read
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

from allocator import AddressRange
from controller.cache import Change
from controller.client import Client
from controller.meta import Key, Object, ObjectMeta
from controller.resource import Resource
from reconcilers.api.services import Service
from reconcilers.api.tenantaddons import ServiceSelector
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.reporting.conditions import ConditionFinding

K = TypeVar("K", bound=Object)
T = TypeVar("T")

BEHIND = "Behind"
"""The reason when another replica has just written: try again soon."""
CONTESTED = "Contested"
"""The reason while another writer keeps changing what we write."""
MADE_BY_OTHERS = "PoolMadeByOthers"
"""The reason where another tool made the offer that would be ours."""
OTHER_CLASS = "OtherClass"
"""The reason where a Service is of another load-balancer class."""
READING_GRACE_SECONDS = 10.0
"""For how many seconds a balancer that was ready is believed to be about to read its offers."""


class BalancerBlocked(Exception):
    """The tenant answers, but its balancer cannot be given the projected ranges now.

    Args:
        reason: CamelCase word for a condition.
        message: a sentence for people.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class AllocationName:
    """An IPAllocation in the management cluster.

    Args:
        uid: the uid of the allocation; no other allocation ever has it.
    """

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ProjectedRanges:
    """The ranges of one allocation, as the tenant holds them.

    Args:
        allocation: the allocation that holds the ranges.
        entries: the ranges, each `start-end`.
    """

    allocation: AllocationName
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """The ranges that a tenant should hold, as one reader of the management cluster sees them.

    Args:
        allocations: the ranges of each allocation, in the order in which they are handed out.
        basis: the position of the cache that the ranges were read from.
        needed: the lowest basis at which every marked range is left out.
        owner: annotations that name the TenantCluster that the ranges are for.
        releasing: uids of all other allocations that name that TenantCluster. An object in the
            tenant that serves only such an allocation belongs to its release.
        evicting: the ranges of those allocations in `releasing` that are deleted, or that move to
            another load balancer. Services lose addresses of them. A shrink is not among them: it
            is withdrawn if Services need the addresses.
        selector: which Services the backend may serve, if it has selectors; None for all.
    """

    allocations: tuple[ProjectedRanges, ...]
    basis: int
    needed: int = 0
    owner: Mapping[str, str] = field(default_factory=dict)
    releasing: frozenset[str] = frozenset()
    evicting: tuple[ProjectedRanges, ...] = ()
    selector: ServiceSelector | None = None

    @property
    def entries(self) -> tuple[str, ...]:
        """The ranges of all allocations."""
        return tuple(entry for ranges in self.allocations for entry in ranges.entries)


@dataclass(frozen=True, slots=True)
class Offer:
    """An object in a tenant that makes addresses available there, whoever made it.

    Args:
        metadata: of the object; its annotations say for whom it was made.
        kind: of the object.
        entries: its ranges as the object has them; an entry may be unreadable.
        is_made_by_us: whether this controller made it.
        basis: the position that its content was computed from; 0 if the object does not say.
        edited_fields: names of the fields that others have set in it, apart from the selector.
        selector: which Services it serves, as the object has it; empty for all.
    """

    metadata: ObjectMeta
    kind: str
    entries: tuple[str, ...]
    is_made_by_us: bool
    basis: int = 0
    edited_fields: tuple[str, ...] = ()
    selector: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name


@dataclass(frozen=True, slots=True)
class BalancerReading:
    """What was read of a tenant's balancer; an adapter adds the fields that it judges by.

    Args:
        targets: the offers that a projection would write, by name, also those made by others.
        missing: the sentence for a tenant that does not serve the backend's kinds; empty if it
            serves them.
    """

    targets: Mapping[str, Offer]
    missing: str = ""

    @property
    def pool_names(self) -> Sequence[str]:
        """The names of all pools that the backend hands out addresses from, also of others."""
        return sorted(self.targets)

    @property
    def is_served(self) -> bool:
        """Whether the tenant serves the backend's kinds."""
        return not self.missing

    def require_backend_kinds(self, missing_reason: str) -> None:
        """Raise BalancerBlocked if the tenant does not serve the backend's kinds.

        Args:
            missing_reason: the backend's reason in a condition.
        """
        if self.missing:
            raise BalancerBlocked(missing_reason, self.missing)


IsKept = Callable[[str], bool]
"""Returns whether objects in a tenant are still needed, by the uid of their allocation."""
Confirm = Callable[[], Awaitable[Projection]]
"""Reads the projection live from the management cluster."""
Permit = Callable[[Offer], Awaitable[None]]
"""Raises BalancerBlocked if an offer that is there must not be written."""


class CreationNote(Protocol):
    """A note on an IPAllocation: a process is about to create an object for it in its tenant.

    An object that a process creates late, after the tenant was torn down, would stay for good. So
    an adapter that needs an object to prove a withdrawal begins the note before it creates the
    object, and removes it afterwards.
    """

    @property
    def is_pending(self) -> bool:
        """Whether a creation that another process noted may still happen."""
        ...

    async def begin(self) -> bool:
        """Note that the object is about to be created.

        Returns:
            Whether the object may be created. False if the IPAllocation is gone, or if the note
            could not be written.
        """
        ...

    async def remove(self) -> bool:
        """Remove the note.

        Returns:
            Whether the object may stay. False if the IPAllocation is gone, so that nobody would
            delete the object, or if the note could not be removed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Ranges of one IPAllocation that have to be out of a tenant's balancer.

    Args:
        allocation: the allocation that holds the ranges.
        spans: the ranges, one of each family.
        mark: the resourceVersion at which their release began.
        position: a position of the cache, at or above `mark`: a projection with this basis leaves
            the ranges out.
        owner: annotations for objects in the tenant that name their TenantCluster.
        note: the note to begin before an object is created in the tenant.
        release_note: the `release_note` of a Service that showed an address of the ranges at some
            time; empty if no such Service was seen.
    """

    allocation: AllocationName
    spans: Sequence[AddressRange]
    mark: int
    position: int
    owner: Mapping[str, str]
    note: CreationNote
    release_note: str = ""


@dataclass(frozen=True, slots=True)
class Proven:
    """The balancer cannot hand out the ranges any more.

    Args:
        how: the proof, as a sentence for people.
    """

    how: str = "the tenant no longer uses the range"


@dataclass(frozen=True, slots=True)
class NotYet:
    """The balancer may hand out the ranges; the caller waits as long as it takes.

    Args:
        why: what is waited for.
        is_used: whether the balancer itself counts a user of the ranges.
    """

    why: str
    is_used: bool = False


@dataclass(frozen=True, slots=True)
class Unprovable:
    """The backend cannot show whether it may hand out the ranges; the caller waits a bounded time.

    Args:
        purpose: what the time is for, as the end of "giving ... 10 s".
        version: the version of the offers; another version restarts the wait.
        then: the reason of the release once the time has passed.
    """

    purpose: str
    version: tuple[str, int]
    then: str = "the tenant no longer uses the range"


WithdrawalAnswer = Proven | NotYet | Unprovable


class HealthState(Enum):
    """Whether a balancer works by the projected offers.

    RUNNING: it works by them, or its backend cannot show whether it does.
    NOT_READING: it has not read its offers as they are stored.
    CONTESTED: another writer keeps changing the objects that we write.
    """

    RUNNING = "Running"
    NOT_READING = "NotReading"
    CONTESTED = "Contested"


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a balancer works by the projected offers, in words for a condition.

    Args:
        state: which of the three states; the other fields describe it.
        reason: CamelCase word for a condition; empty while it runs.
        message: a sentence for people; empty while it runs.
        since: since when it is not reading, in monotonic seconds.
    """

    state: HealthState = HealthState.RUNNING
    reason: str = ""
    message: str = ""
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Correction:
    """An edit by others that was undone in a tenant.

    Args:
        kind: of the object.
        description: the object, its fields and their writer.
    """

    kind: str
    description: str


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why no address of ours can serve a Service, however many addresses we add.

    Args:
        reason: CamelCase word for a condition.
        asks: what the Service asks for, as the end of "the Service asks for".
    """

    reason: str
    asks: str


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A Service as the backend sees it.

    Args:
        keeps_range: whether the backend is responsible for the Service. Then a range is not
            released while the Service shows an address of it, or may just have lost one.
        obstacle: why no address of ours can serve it, apart from its families; None if one can.
        sharing_key: Services with the same key may share an address; empty if it has no key.
        requirements: all other fields that decide whether an offer serves the Service, as one
            text. After the text changes, growth that did not help the Service may help it.
        fixed_addresses: the addresses that it asks for; empty if it accepts any address.
        release_note: a fact about the Service that the release of its range needs, even after the
            Service is gone; empty for none. The caller notes it on the IPAllocation.
    """

    keeps_range: bool
    obstacle: Obstacle | None = None
    sharing_key: str = ""
    requirements: str = ""
    fixed_addresses: Sequence[AddressRange] = ()
    release_note: str = ""


ServiceViewer = Callable[[Service], ServiceView]
"""Returns a Service as a backend sees it."""


class BalancerMemory:
    """What an adapter remembers of one tenant: one object of each class that the adapter asks for.

    So the owner of the memory needs to know none of the adapter's classes.
    """

    def __init__(self) -> None:
        self._parts: dict[type, object] = {}

    def get_or_create(self, part_class: type[T]) -> T:
        """Return the object of a class; create it at the first use."""
        part = self._parts.get(part_class)
        # `isinstance` instead of `is None`, so that type checkers know the class of the part.
        if not isinstance(part, part_class):
            part = self._parts[part_class] = part_class()
        return part


class WatchedOffers(Protocol):
    """The objects that an adapter writes in one tenant, as a watch shows them."""

    def open(self) -> None:
        """Watch the tenant from now on, if the number of watches allows it."""
        ...

    def get(self, resource: Resource[K], key: Key) -> K | None:
        """Return an object; None if the watch shows no such object, or is not open."""
        ...


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """Objects that an adapter writes in tenants, which are watched for edits by others.

    Args:
        resource: the kind of the objects.
        namespace: the namespace of the objects; empty for all namespaces.
        fields: a field selector that limits the watch.
        is_concerned: returns whether an object is one that the adapter writes.
        may_matter: returns whether a change needs a pass: a change of fields that we write, or of
            a sign that the backend has read them.
    """

    resource: Resource[Any]
    namespace: str
    fields: str
    is_concerned: Callable[[Object], bool]
    may_matter: Callable[[Change[Any]], bool]


class LoadBalancer(Protocol):
    """The load balancer in one tenant."""

    async def read(self) -> BalancerReading:
        """Read all offers live, for a proof.

        If the tenant does not serve the backend's kinds, `missing` of the reading says so. The
        caller reads Services afterwards, so they are newer than the offers.
        """
        ...

    async def read_targets(self) -> BalancerReading:
        """Read live only the offers that a projection would write.

        Such a reading may lack offers that a proof needs, so it proves no withdrawal.
        """
        ...

    async def project(self, projection: Projection, confirm: Confirm, permit: Permit) -> None:
        """Make the tenant hold the ranges of `projection`, writing only what differs.

        A missing offer is created without effect, confirmed, and then filled. An added or removed
        range is written at once; an edit that others repeat is written back ever less often.

        Args:
            projection: from the cache.
            confirm: asked after an offer was created, and before it is given its ranges.
            permit: asked of an offer that is there before it is written.

        Raises:
            BalancerBlocked: the backend is missing, an offer is not ours, or a newer view has
                written.
            Conflict: an offer changed since it was read.
            ControllerError: the tenant did not answer.
        """
        ...

    async def overwrite(
        self, projection: Projection, position: int, permit: Permit
    ) -> Offer | None:
        """Write `projection` over offers of the time before the management cluster was restored.

        Their basis is above `position`: no resourceVersion is that high any more.

        Args:
            projection: the ranges that the tenant is to hold.
            position: the resourceVersion of a LIST that has confirmed the ranges of `projection`.
            permit: raises if an offer must not be written.

        Returns:
            The offer that was overwritten, as it was before; None if no offer has such a basis.
        """
        ...

    async def prove_withdrawal(
        self, reading: BalancerReading, withdrawal: Withdrawal
    ) -> WithdrawalAnswer:
        """Return whether the balancer has acted on offers without the ranges of a withdrawal.

        Proven if it has, NotYet if it may still do so, Unprovable if it cannot show that.
        Everything is judged by `reading`, also whether the offers were written since the mark. If
        the proof is not complete, its next step may be written to the tenant. The caller has made
        sure that no Service shows an address of the ranges.

        Raises:
            Conflict: an object changed since it was read.
            ControllerError: the tenant did not answer.
        """
        ...

    async def read_health(self, projection: Projection) -> Health:
        """Return whether the balancer works by `projection`, which was just projected."""
        ...

    async def find_stale_configuration(self, reading: BalancerReading) -> str | None:
        """Return why addresses are handed out by an older configuration than the stored one.

        Returns:
            The cause, empty if the cause is not known; None if nothing shows that the
            configuration is older.
        """
        ...

    async def find_interference(self) -> str:
        """Return why the backend takes addresses from Services though it has no pool there.

        Returns:
            The cause as a sentence; empty if it takes none, or if that is not known.

        Raises:
            ControllerError: the tenant did not answer.
        """
        ...

    async def find_announcement_problem(self) -> str:
        """Return why no machine announces the addresses that Services are given.

        Returns:
            The cause as a sentence; empty if something announces them, or if that is not known.

        Raises:
            ControllerError: the tenant did not answer.
        """
        ...

    async def remove(self, management: str, is_kept: IsKept) -> None:
        """Delete our objects that hand out nothing, after all ranges were released.

        Args:
            management: the identity of the management cluster; empty if it is not known.
            is_kept: whether the object of an allocation stays, because its release needs it.

        Raises:
            BalancerBlocked: the tenant does not serve the backend's kinds.
            Conflict: an object changed since it was read.
            ControllerError: the tenant did not answer.
        """
        ...


Annotate = Callable[[Mapping[str, str | None]], Awaitable[None]]
"""Sets annotations of the TenantCluster of a pass; None removes one."""


class BalancerInstaller(Protocol):
    """Installs a backend in tenants that lack it."""

    @property
    def provider(self) -> str:
        """The provider in spec.addons.loadBalancer of the tenants that it is installed in."""
        ...

    @property
    def condition(self) -> str:
        """The type of the condition that says how far it is installed."""
        ...

    @property
    def installing_reason(self) -> str:
        """The reason while it is being installed."""
        ...

    def compute_check_delay(self, memory: BalancerMemory) -> float | None:
        """Return seconds until the next attempt; None if the last attempt was complete."""
        ...

    async def install(
        self,
        tenant: TenantCluster,
        memory: BalancerMemory,
        annotate: Annotate,
        *,
        is_missing: bool,
    ) -> ConditionFinding | None:
        """Install the backend if an installation is due; return its condition.

        Args:
            memory: what is remembered of the installation in this tenant.
            annotate: sets annotations of the TenantCluster.
            is_missing: whether the tenant is known not to serve the backend's kinds.

        Returns:
            The condition; None to keep the one in the status.

        Raises:
            Conflict: the TenantCluster changed since it was read.
            ControllerError: the management cluster did not answer.
        """
        ...


class LoadBalancerKind(Protocol):
    """A backend: everything of it that needs no client of a tenant."""

    @property
    def title(self) -> str:
        """Its name in messages."""
        ...

    @property
    def missing_reason(self) -> str:
        """The reason of a condition where the tenant does not serve the backend's kinds."""
        ...

    @property
    def absent_reasons(self) -> Collection[str]:
        """The reasons of a condition where the balancer is missing, or being installed."""
        ...

    @property
    def not_reading_reason(self) -> str:
        """The reason of a condition where the balancer has not read its offers."""
        ...

    @property
    def wait(self) -> float:
        """Seconds after which a withdrawal that the backend cannot prove counts as done."""
        ...

    @property
    def watches(self) -> Sequence[WatchedKind]:
        """The objects that are watched in a tenant."""
        ...

    def make_balancer(
        self, client: Client, memory: BalancerMemory, watched: WatchedOffers | None = None
    ) -> LoadBalancer:
        """Return the balancer of one tenant, for one pass or check.

        Args:
            client: the client of the tenant.
            memory: the adapter's own memory of that tenant.
            watched: the watched objects of that tenant; None if nothing is watched.
        """
        ...

    def view_service(self, service: Service) -> ServiceView:
        """Return a Service as the backend sees it in a tenant without a selector of Services."""
        ...

    def make_service_viewer(self, _: TenantCluster, /) -> ServiceViewer:
        """Return the function that views Services of one tenant, by the selector in its spec.

        A backend without selectors views the Services of all tenants in the same way.
        """
        return self.view_service

    def compute_check_delay(self, memory: BalancerMemory) -> float | None:
        """Return the seconds until the balancer is checked again; None for never."""
        ...

    def take_corrections(self, memory: BalancerMemory) -> Sequence[Correction]:
        """Return the edits by others that were undone since the last call."""
        ...
