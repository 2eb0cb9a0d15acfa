"""The loop of the stand-in for MetalLB: pools and Services in, addresses in Services' status out.

All of it is one key: what one Service gets depends on all others, so one pass looks at all of
them, never two at once. Like MetalLB it keeps the last sound configuration when somebody writes an
unsound one, and says so: in the log, as Warning events on the pools, and in `stale`.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

import structlog

from controller.clock import Clock
from controller.errors import ControllerError
from controller.events import EventType, Recorder
from controller.manager import Manager
from controller.meta import Key, Object, Version
from controller.outcome import SETTLED, Outcome
from controller.triggers import Watch
from reconcilers.api.resources import SERVICE, Service
from reconcilers.cli.standin.api import (
    ADDRESS_POOL,
    ALLOCATED_FROM,
    AddressPool,
    AddressPoolStatus,
    addresses,
)
from reconcilers.cli.standin.assigning import Assignment, assignments, is_ours, used
from reconcilers.cli.standin.config import IPV4, IPV6, InvalidConfig, Pool, configuration

COMPONENT = "metallb-stand-in"
EVERYTHING = Key("", "configuration")

_log = structlog.get_logger(__name__)


class MetalLBStandIn:
    """A stand-in for MetalLB's controller in one tenant.

    Args:
        manager: of the tenant's API server; the stand-in adds its controller to it.
        clock: for events.
    """

    def __init__(self, manager: Manager, clock: Clock) -> None:
        self._client = manager.client
        self._recorder = Recorder(manager.client, clock, COMPONENT)
        self._pools = manager.informer(ADDRESS_POOL).cache
        self._services = manager.informer(SERVICE).cache
        self._sound: tuple[Pool, ...] = ()
        self._told: dict[str, str] = {}
        self.stale = ""
        """Why the pools as they are now are not in force; empty if they are."""
        manager.add_service("events", self._recorder.run, leader_only=False)
        manager.controller(
            COMPONENT,
            self.reconcile,
            watches=[
                Watch(manager.informer(ADDRESS_POOL), _everything),
                Watch(manager.informer(SERVICE), _everything),
            ],
        )

    async def reconcile(self, _: Key) -> Outcome:
        """Look at everything once, write what differs; what fails stops nothing else.

        Raises:
            ExceptionGroup: the writes that failed.
        """
        self._configure(tuple(self._pools))
        found = assignments(self._services, self._sound)
        gone = [
            Assignment(service)
            for service in self._services
            if not is_ours(service) and ALLOCATED_FROM in service.metadata.annotations
        ]
        writes = [partial(self._write, one) for one in (*found, *gone)]
        writes += [partial(self._count, pool, found) for pool in tuple(self._pools)]
        failures = [error for write in writes if (error := await _failure(write)) is not None]
        if failures:
            raise ExceptionGroup("some writes failed", failures)
        return SETTLED

    def _configure(self, declared: Sequence[AddressPool]) -> None:
        try:
            self._sound = configuration(declared)
        except InvalidConfig as wrong:
            if self.stale != str(wrong):
                _log.error("configuration refused, the last one stays", reason=str(wrong))
                for pool in declared:
                    self._tell(ADDRESS_POOL, pool, "Warning", "InvalidConfiguration", str(wrong))
            self.stale = str(wrong)
            return
        self.stale = ""

    async def _write(self, assignment: Assignment) -> None:
        """Make the Service say what it has; status first, so that nobody sees a false origin."""
        service = assignment.service
        self._complain(service, assignment.problem)
        if addresses(service) != assignment.addresses:
            service = await self._set_status(service, assignment)
        if service.metadata.annotations.get(ALLOCATED_FROM, "") != assignment.pool:
            origin = {ALLOCATED_FROM: assignment.pool or None}
            await self._client.patch(
                SERVICE, Version.from_object(service), {"metadata": {"annotations": origin}}
            )

    async def _set_status(self, service: Service, assignment: Assignment) -> Service:
        if addresses(service):
            lost = ", ".join(addresses(service))
            self._tell(SERVICE, service, "Normal", "ClearAssignment", f"{lost} is not ours to use")
        if assignment.addresses:
            given = ", ".join(assignment.addresses)
            self._tell(SERVICE, service, "Normal", "IPAllocated", f"Assigned IP [{given}]")
        ingress = [{"ip": address} for address in assignment.addresses]
        return await self._client.patch(
            SERVICE,
            Version.from_object(service),
            {"status": {"loadBalancer": {"ingress": ingress or None}}},
            subresource="status",
        )

    def _complain(self, service: Service, problem: str) -> None:
        """Say why a Service has no address, once for each reason."""
        uid = service.metadata.uid
        if problem and self._told.get(uid) != problem:
            self._tell(SERVICE, service, "Warning", "AllocationFailed", problem)
        self._told[uid] = problem

    async def _count(self, declared: AddressPool, found: Iterable[Assignment]) -> None:
        pool = next((one for one in self._sound if one.name == declared.metadata.name), None)
        if pool is None:
            return
        four, six = used(pool, found, IPV4), used(pool, found, IPV6)
        status = AddressPoolStatus(four, six, pool.size(IPV4) - four, pool.size(IPV6) - six)
        if declared.status != status:
            counts = {name: getattr(status, name) for name in AddressPoolStatus.__slots__}
            await self._client.patch(
                ADDRESS_POOL,
                Version.from_object(declared),
                {"status": counts},
                subresource="status",
            )

    def _tell(
        self, resource: Any, about: Object, kind: EventType, reason: str, message: str
    ) -> None:
        self._recorder.record(resource, about, kind, reason, message, action="Assign")


def _everything(_: Object) -> Iterable[Key]:
    return (EVERYTHING,)


async def _failure(write: Callable[[], Awaitable[None]]) -> ControllerError | None:
    try:
        await write()
    except ControllerError as error:
        return error
    return None
