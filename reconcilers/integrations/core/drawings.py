"""Pools of other platforms in the form of NetworkPools, which is what pictures are made of."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from allocator import AddressRange
from controller.conditions import Condition
from controller.meta import Key, ObjectMeta, TracedMeta
from reconcilers.api import names
from reconcilers.api.ipallocation import (
    ALLOCATED,
    PENDING,
    IPAllocation,
    IPAllocationSpec,
    IPAllocationStatus,
    PoolReference,
    TenantReference,
)
from reconcilers.api.networkpool import (
    AddressSpan,
    NetworkPool,
    NetworkPoolSpec,
    NetworkPoolStatus,
    TenantAllocation,
)
from reconcilers.integrations.core.views import Drawing, PoolView
from reconcilers.reporting.conditions import READY


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """An object of another kind that holds addresses of a pool, or waits for some.

    Args:
        kind: of the object.
        metadata: of the object.
        pool: the name of the pool.
        tenant: for whom it is.
        type: what the addresses are for, as people see it.
    """

    kind: str
    metadata: ObjectMeta
    pool: str
    tenant: Key
    type: str

    def holding(self, held: AddressRange, *, releasing: bool = False) -> IPAllocation:
        """Return it in the form of an IPAllocation that holds addresses.

        Its name begins with the kind, in small letters, and a slash, which no object's name does.

        Args:
            held: the addresses.
            releasing: whether they are being given back.
        """
        status = IPAllocationStatus(
            ALLOCATED,
            cidr=held.text,
            startAddress=held.start_text,
            endAddress=held.end_text,
            allocatedCount=held.size,
        )
        marks = {names.ANNOTATION_RELEASING: ""} if releasing else {}
        return self._allocation(held.size, status, marks)

    def waiting(self, conditions: Sequence[Condition] = ()) -> IPAllocation:
        """Return it in the form of an IPAllocation that waits.

        Args:
            conditions: of which Ready says why.
        """
        return self._allocation(1, IPAllocationStatus(PENDING, conditions=tuple(conditions)), {})

    def _allocation(
        self, count: int, status: IPAllocationStatus, marks: dict[str, str]
    ) -> IPAllocation:
        name = f"{self.kind.lower()}/{self.metadata.name}"
        annotations = {**self.metadata.annotations, **marks}
        return IPAllocation(
            _metadata(self.metadata, name=name, annotations=annotations),
            IPAllocationSpec(
                PoolReference(self.pool),
                TenantReference(self.tenant.name, self.tenant.namespace),
                self.type,
                count,
            ),
            status,
        )


_META = tuple(one.name for one in dataclasses.fields(ObjectMeta))


def _metadata(meta: ObjectMeta, **other: Any) -> TracedMeta:
    """Return metadata as objects of ours have it, with some fields replaced."""
    fields = {name: getattr(meta, name) for name in _META}
    return TracedMeta(**{**fields, **other})


def drawing(
    view: PoolView,
    metadata: ObjectMeta,
    cidr: AddressRange,
    usable: Iterable[AddressRange],
    requests: Sequence[IPAllocation],
    gateway: str = "",
) -> Drawing:
    """Return a pool in the form of a NetworkPool, with who holds some of it and who waits.

    Args:
        view: the pool.
        metadata: of the pool.
        cidr: what is drawn of it at least; what is held outside is listed.
        usable: what it may hand out, ascending.
        requests: who holds some of it, and who waits.
        gateway: an address that it never hands out; empty for none.
    """
    spec = NetworkPoolSpec(
        cidr.text,
        tenantAllocation=TenantAllocation(
            ranges=tuple(AddressSpan(each.start_text, each.end_text) for each in usable)
        ),
        gateway=gateway or None,
    )
    ready = Condition(READY, view.ready, "", view.reason)
    status = NetworkPoolStatus(conditions=(ready,))
    return Drawing(view, NetworkPool(_metadata(metadata), spec, status), requests)


def not_drawn(view: PoolView, metadata: ObjectMeta, why: str) -> Drawing:
    """Return a pool of which nothing can be drawn, and why."""
    return Drawing(view, NetworkPool(_metadata(metadata), NetworkPoolSpec(view.offers)), fault=why)
