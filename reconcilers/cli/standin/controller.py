"""The stand-in for MetalLB's controller: which Service has which address, and the loop around it.

A Service keeps its address while a pool holds it. If no pool holds it any more, the address is
removed, and another one is assigned at once if there is one. Within a pool the first free address
is taken, in the order of the pool's entries. Among pools, MetalLB chooses at random, and the
stand-in by name.

The address of one Service depends on those of all other Services. So the queue has a single key,
and one pass assigns the addresses of all Services. The configuration is all pools together. Like
MetalLB, the stand-in keeps the last valid configuration when it reads an invalid one. It reports
that in the log, as Warning events on the pools, and in `stale`.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from allocator import AddressRange
from controller.clock import Clock
from controller.errors import ControllerError
from controller.events import EventType, Recorder
from controller.loggers import get_logger
from controller.manager import Manager
from controller.meta import Key, Object, Version
from controller.outcome import SETTLED, Outcome
from controller.triggers import Watch
from reconcilers.api.services import SERVICE, Service
from reconcilers.cli.standin.pools import (
    ADDRESS_POOL,
    AddressPool,
    InvalidConfig,
    Pool,
    build_configuration,
)
from reconcilers.cli.standin.serviceaddresses import (
    build_age_key,
    parse_addresses,
    read_status_addresses,
)

COMPONENT = "metallb-stand-in"
EVERYTHING = Key("", "configuration")
POOL_ANNOTATIONS = ("metallb.io/address-pool", "metallb.universe.tf/address-pool")
"""Annotations of a Service that ask for a pool; the first that is there counts."""
ADDRESS_ANNOTATIONS = ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs")
"""Annotations of a Service that ask for addresses, separated by commas."""
ALLOCATED_FROM = "metallb.io/ip-allocated-from-pool"
"""Annotation that tells which pool a Service's address is from."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceAssignment:
    """The addresses that one Service should have.

    Args:
        service: the Service as it was read.
        addresses: the addresses for its status.
        pool: the name of their pool; empty if there are none.
        problem: why the Service gets no address; empty if it gets one or needs none.
    """

    service: Service
    addresses: tuple[str, ...] = ()
    pool: str = ""
    problem: str = ""


class CannotServe(Exception):
    """A Service's request cannot be met now; the message says why."""


def is_ours(service: Service) -> bool:
    """Return whether a Service is for MetalLB: of type LoadBalancer, without a class."""
    return service.spec.type == "LoadBalancer" and service.spec.loadBalancerClass is None


def assign_addresses(
    services: Iterable[Service], pools: Sequence[Pool]
) -> list[ServiceAssignment]:
    """Return the addresses or the problem of each Service for MetalLB, the oldest first.

    First, each Service keeps its valid addresses; if two Services have one address, the older
    keeps it. Then the Services without addresses get free ones.
    """
    ours = sorted((service for service in services if is_ours(service)), key=build_age_key)
    taken_addresses: set[AddressRange] = set()
    kept_by_uid: dict[str, ServiceAssignment] = {}
    for service in ours:
        shown_addresses = parse_addresses(read_status_addresses(service))
        pool = _find_kept_pool(service, shown_addresses, pools)
        if pool is not None and not taken_addresses.intersection(shown_addresses):
            kept_by_uid[service.metadata.uid] = ServiceAssignment(
                service, read_status_addresses(service), pool.name
            )
            taken_addresses.update(shown_addresses)
    return [
        kept_by_uid.get(service.metadata.uid)
        or _assign_free_addresses(service, pools, taken_addresses)
        for service in ours
    ]


def _find_kept_pool(
    service: Service, shown_addresses: Sequence[AddressRange], pools: Sequence[Pool]
) -> Pool | None:
    """Return the pool of a Service's current addresses; None if it loses the addresses.

    A Service keeps its addresses if one pool has all of them. They must also agree with the pool
    and the addresses that the Service requests.
    """
    pool = next(
        (pool for pool in pools if all(address in pool for address in shown_addresses)), None
    )
    if not shown_addresses or pool is None:
        return None  # there are no addresses, or no pool has all of them
    if _find_first_annotation(service, POOL_ANNOTATIONS) not in ("", pool.name):
        return None  # the Service requests another pool
    requested = _parse_requested(service)
    if requested is None:
        return None  # the requested addresses cannot be parsed, so the Service gets none
    return pool if not requested or set(requested) == set(shown_addresses) else None


def _find_first_annotation(service: Service, annotations: tuple[str, ...]) -> str:
    """Return the value of the first annotation that the Service has and that is not empty.

    Empty if there is none.

    Args:
        annotations: the names of annotations; the first has precedence.
    """
    service_annotations = service.metadata.annotations
    return next(
        (service_annotations[name] for name in annotations if service_annotations.get(name)), ""
    )


def _parse_requested(service: Service) -> list[AddressRange] | None:
    """Return the addresses that a Service requests; empty if it requests none.

    None if an address cannot be parsed.
    """
    requested = _find_first_annotation(service, ADDRESS_ANNOTATIONS) or service.spec.loadBalancerIP
    if not requested:
        return []
    # `parse_addresses` returns nothing if an address cannot be parsed.
    return parse_addresses(part.strip() for part in requested.split(",")) or None


def _assign_free_addresses(
    service: Service, pools: Sequence[Pool], taken_addresses: set[AddressRange]
) -> ServiceAssignment:
    """Return free addresses for a Service, or why it gets none; add them to `taken_addresses`."""
    try:
        pool, chosen = _choose_addresses(service, pools, taken_addresses)
    except CannotServe as why:
        problem = f'Failed to allocate IP for "{service.metadata.key}": {why}'
        return ServiceAssignment(service, problem=problem)
    taken_addresses.update(chosen)
    return ServiceAssignment(service, tuple(address.start_text for address in chosen), pool.name)


def _choose_addresses(
    service: Service, pools: Sequence[Pool], taken_addresses: set[AddressRange]
) -> tuple[Pool, list[AddressRange]]:
    """Return a pool and free addresses of it for a Service.

    1. The requested addresses, if the Service requests some.
    2. Else free addresses of the requested pool.
    3. Else free addresses of the first pool that assigns automatically.

    Raises:
        CannotServe: there are none.
    """
    requested, name = _parse_requested(service), _find_first_annotation(service, POOL_ANNOTATIONS)
    if requested is None:
        raise CannotServe("the requested addresses cannot be parsed")
    if name and name not in {pool.name for pool in pools}:
        raise CannotServe(f'unknown pool "{name}"')
    for pool in pools:
        if name and pool.name != name:
            continue  # the Service requests another pool
        # Without automatic assignment, the Service must request the pool or its addresses.
        if not name and not requested and not pool.auto_assign:
            continue
        if requested:
            if all(address in pool and address not in taken_addresses for address in requested):
                return pool, requested
        elif free_addresses := _find_free_addresses(service, pool, taken_addresses):
            return pool, free_addresses
    if requested:
        listed = ", ".join(address.start_text for address in requested)
        raise CannotServe(f"[{listed}] is not allowed in config, or in use")
    raise CannotServe(f"no available IPs in pool {name}" if name else "no available IPs")


def _find_free_addresses(
    service: Service, pool: Pool, taken_addresses: set[AddressRange]
) -> list[AddressRange]:
    """Return the first free address of each family of a Service.

    Empty if a family has no free address, unless the policy of the Service is PreferDualStack.
    """
    families = service.spec.ipFamilies or ("IPv4",)
    free_addresses = [
        address
        for family in families
        if (
            address := next(
                (a for a in pool.list_addresses(family) if a not in taken_addresses), None
            )
        )
    ]
    partly = service.spec.ipFamilyPolicy == "PreferDualStack"
    return free_addresses if len(free_addresses) == len(families) or partly else []


class MetalLBStandIn:
    """A stand-in for MetalLB's controller in one tenant, added to that tenant's manager."""

    def __init__(self, manager: Manager, clock: Clock) -> None:
        self._client = manager.client
        self._recorder = Recorder(manager.client, clock, COMPONENT)
        self._pools = manager.get_informer(ADDRESS_POOL).cache
        self._services = manager.get_informer(SERVICE).cache
        self._configuration: tuple[Pool, ...] = ()
        """The pools of the last valid configuration."""
        self._recorded_problems: dict[str, str] = {}
        """The problem that was last recorded as an event, by the Service's uid."""
        self.stale = ""
        """Why the current pools are not in use; empty if they are."""
        manager.add_service("events", self._recorder.run, leader_only=False)
        informers = (manager.get_informer(ADDRESS_POOL), manager.get_informer(SERVICE))
        watches = [Watch(informer, lambda _: (EVERYTHING,)) for informer in informers]
        manager.add_controller(COMPONENT, self.reconcile, watches=watches)

    async def reconcile(self, _: Key) -> Outcome:
        """Assign addresses to all Services, and write the changes.

        A write that fails does not stop the others.

        Raises:
            ExceptionGroup: the writes that failed.
        """
        self._use_pools(tuple(self._pools))
        wanted_assignments = assign_addresses(self._services, self._configuration)
        # A Service that is no longer for MetalLB loses the addresses that it has from here.
        wanted_assignments += [
            ServiceAssignment(service)
            for service in self._services
            if not is_ours(service) and ALLOCATED_FROM in service.metadata.annotations
        ]
        writes = [partial(self._write_assignment, assignment) for assignment in wanted_assignments]
        writes += [partial(self._write_counters, pool, wanted_assignments) for pool in self._pools]
        failures = [error for write in writes if (error := await _try(write)) is not None]
        if failures:
            raise ExceptionGroup("some writes failed", failures)
        return SETTLED

    def _use_pools(self, declared: Sequence[AddressPool]) -> None:
        """Use the declared pools if they are valid; else report it, and keep the earlier pools."""
        try:
            self._configuration = build_configuration(declared)
        except InvalidConfig as error:
            if self.stale != str(error):
                _log.error("configuration refused, keeping the last one", reason=str(error))
                for pool in declared:
                    self._record_event(
                        ADDRESS_POOL,
                        pool,
                        event_type="Warning",
                        reason="InvalidConfiguration",
                        message=str(error),
                    )
            self.stale = str(error)
        else:
            self.stale = ""

    async def _write_counters(
        self, declared: AddressPool, wanted_assignments: Sequence[ServiceAssignment]
    ) -> None:
        """Write the counters of assigned and free addresses to the status of a pool.

        The pool is counted as it is in the configuration in use, not as it is declared. So a
        reader of the status can tell which configuration is in use. A pool that is not in that
        configuration is not written.
        """
        pool = next(
            (pool for pool in self._configuration if pool.name == declared.metadata.name), None
        )
        if pool is None:
            return
        assigned_addresses = (
            address
            for assignment in wanted_assignments
            for address in parse_addresses(assignment.addresses)
        )
        status = pool.build_status(assigned_addresses)
        if dict(declared.status) != status:
            await self._client.patch_status(ADDRESS_POOL, declared, status)

    async def _write_assignment(self, assignment: ServiceAssignment) -> None:
        """Write the addresses of a Service, if they changed, and the annotation with their pool.

        A new problem is recorded as an event. The status is written first, because the annotation
        names the pool of the addresses in the status.
        """
        service = assignment.service
        uid = service.metadata.uid
        if assignment.problem and self._recorded_problems.get(uid) != assignment.problem:
            self._record_event(
                SERVICE,
                service,
                event_type="Warning",
                reason="AllocationFailed",
                message=assignment.problem,
            )
        self._recorded_problems[uid] = assignment.problem
        if read_status_addresses(service) != assignment.addresses:
            service = await self._set_status(service, assignment)
        if service.metadata.annotations.get(ALLOCATED_FROM, "") != assignment.pool:
            origin = {"metadata": {"annotations": {ALLOCATED_FROM: assignment.pool or None}}}
            await self._client.patch(SERVICE, Version.from_object(service), origin)

    async def _set_status(self, service: Service, assignment: ServiceAssignment) -> Service:
        """Write the new addresses of a Service to its status, and record events about the change.

        Returns:
            The Service as it was written.
        """
        if read_status_addresses(service):
            lost = f"{', '.join(read_status_addresses(service))} is not in a pool any more"
            self._record_event(
                SERVICE, service, event_type="Normal", reason="ClearAssignment", message=lost
            )
        if assignment.addresses:
            message = f"Assigned IP [{', '.join(assignment.addresses)}]"
            self._record_event(
                SERVICE, service, event_type="Normal", reason="IPAllocated", message=message
            )
        ingress = [{"ip": address} for address in assignment.addresses] or None
        status = {"status": {"loadBalancer": {"ingress": ingress}}}
        at = Version.from_object(service)
        return await self._client.patch(SERVICE, at, status, subresource="status")

    def _record_event(
        self, resource: Any, about: Object, event_type: EventType, reason: str, message: str
    ) -> None:
        """Record an event about an object; `event_type` is Normal or Warning."""
        self._recorder.record(resource, about, event_type, reason, message, action="Assign")


async def _try(write: Callable[[], Awaitable[None]]) -> ControllerError | None:
    """Await a write. Return its error, so that the other writes are tried; None if it succeeds."""
    try:
        await write()
    except ControllerError as error:
        return error
    return None
