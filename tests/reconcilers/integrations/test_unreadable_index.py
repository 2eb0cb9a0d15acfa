"""A pass examines the unreadable objects that may hold addresses of its pool, and no others.

An *outline* is the part of an unreadable object that can be decoded, such as the pool it names.
"""

from collections.abc import Callable
from typing import Any

import pytest

from controller.cache import Cache
from controller.codec import DecodeFailure
from controller.meta import Key, Object, ObjectMeta
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.kubermatic import reading as kubermatic_reading
from reconcilers.integrations.vitistack import api as vitistack
from reconcilers.integrations.vitistack.caches import (
    ALLOCATION_INDEXES,
    NAMESPACE_INDEX,
    VitistackCaches,
    list_namespaces_of,
)
from reconcilers.promises import unreadable as unreadables
from reconcilers.promises.unreadable import UnreadableHolders

POOLS = ["p", *(f"other-{number}" for number in range(300))]
Check = Callable[[], None]
"""Raises UnreadableHolders with the unreadable objects that may hold addresses of pool `p`."""


def fill_with_unreadable(
    cache: Cache[Any], make_outline: Callable[[ObjectMeta, str], Object]
) -> Cache[Any]:
    """Put one unreadable object for each pool into a cache, and return the cache.

    Args:
        cache: the cache to fill.
        make_outline: makes the outline of the object of the pool that it gets the name of. The
            object has the name of the pool and is in a namespace of that name.
    """
    failures = dict[Key, str]()
    for pool in POOLS:
        meta = ObjectMeta(namespace=pool, name=pool, uid=f"uid-{pool}", resourceVersion="1")
        failures[meta.key] = DecodeFailure("odd", make_outline(meta, pool), meta)
    cache.replace([], 1, failures)
    return cache


def make_kkp_check() -> Check:
    """Return the check of unreadable IPAMAllocations."""

    def make_outline(meta: ObjectMeta, pool: str) -> Object:
        del pool
        return kubermatic.KkpOutline(meta, kubermatic.KkpOutlineSpec())

    indexes = kubermatic_reading.ALLOCATION_INDEXES
    cache = fill_with_unreadable(Cache(kubermatic.ALLOCATIONS, indexes=indexes), make_outline)
    return lambda: kubermatic_reading.check_readable("p", cache.unreadable)


def make_vitistack_allocation_check() -> Check:
    """Return the check of unreadable IPAllocations of vitistack."""

    def make_outline(meta: ObjectMeta, pool: str) -> Object:
        return vitistack.VitistackOutline(meta, vitistack.AllocationOutlineSpec(pool))

    allocations = Cache(vitistack.ALLOCATIONS, indexes=ALLOCATION_INDEXES)
    return _make_vitistack_check(
        fill_with_unreadable(allocations, make_outline), Cache(vitistack.CONFIGURATIONS)
    )


def make_vitistack_machine_check() -> Check:
    """Return the check of unreadable NetworkConfigurations."""

    def make_outline(meta: ObjectMeta, pool: str) -> Object:
        spec = vitistack.ConfigurationOutlineSpec(pool, "us")
        return vitistack.ConfigurationOutline(meta, spec)

    machines = Cache(vitistack.CONFIGURATIONS, indexes={NAMESPACE_INDEX: list_namespaces_of})
    allocations = Cache(vitistack.ALLOCATIONS, indexes=ALLOCATION_INDEXES)
    return _make_vitistack_check(allocations, fill_with_unreadable(machines, make_outline))


def _make_vitistack_check(allocations: Cache[Any], machines: Cache[Any]) -> Check:
    """Return the check of caches of IPAllocations and NetworkConfigurations."""
    networks = Cache(vitistack.NETWORKS, indexes={NAMESPACE_INDEX: list_namespaces_of})
    caches = VitistackCaches(networks, allocations, configurations=machines, provider="us")
    return lambda: caches.check_readable(Key("p", "p"), allocations.unreadable)


@pytest.mark.parametrize(
    "make_check", [make_kkp_check, make_vitistack_allocation_check, make_vitistack_machine_check]
)
def test_unreadable_objects_of_other_pools_are_not_examined(
    make_check: Callable[[], Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    check, examined = make_check(), list[str]()
    outline_of = unreadables.read_outline

    def note_examined(failure: str) -> Object | None:
        examined.append(failure)
        return outline_of(failure)

    monkeypatch.setattr(unreadables, "read_outline", note_examined)
    with pytest.raises(UnreadableHolders) as raised:
        check()
    assert [unreadable.key for unreadable in raised.value.objects] == [Key("p", "p")]
    assert len(examined) == 1
