"""A pass looks at the unreadable objects that may concern its pool, and at no others."""

from collections.abc import Callable, Iterable
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

OTHERS = 300
Check = Callable[[], None]


def failures(outline: Callable[[ObjectMeta, str], Object], pools: Iterable[str]) -> dict[Key, str]:
    """Return one unreadable object for each pool, in a namespace of the pool's name."""
    reasons = dict[Key, str]()
    for pool in pools:
        meta = ObjectMeta(namespace=pool, name=pool, uid=f"uid-{pool}", resourceVersion="1")
        reasons[meta.key] = DecodeFailure("odd", outline(meta, pool), meta)
    return reasons


def unreadable(cache: Cache[Any], objects: dict[Key, str]) -> Cache[Any]:
    cache.replace([], 1, objects)
    return cache


POOLS = ["p", *(f"other-{number}" for number in range(OTHERS))]


def of_kkp() -> Check:
    def outline(meta: ObjectMeta, pool: str) -> Object:
        del pool
        return kubermatic.KkpOutline(meta, kubermatic.KkpOutlineSpec())

    indexes = kubermatic_reading.ALLOCATION_INDEXES
    cache = unreadable(Cache(kubermatic.ALLOCATIONS, indexes=indexes), failures(outline, POOLS))
    return lambda: kubermatic_reading.check_readable("p", cache.unreadable)


def of_vitistack_allocations() -> Check:
    def outline(meta: ObjectMeta, pool: str) -> Object:
        return vitistack.VitistackOutline(meta, vitistack.AllocationOutlineSpec(pool))

    objects = failures(outline, POOLS)
    allocations = unreadable(Cache(vitistack.ALLOCATIONS, indexes=ALLOCATION_INDEXES), objects)
    return _make_check(allocations, Cache(vitistack.CONFIGURATIONS))


def of_vitistack_machines() -> Check:
    def outline(meta: ObjectMeta, pool: str) -> Object:
        spec = vitistack.ConfigurationOutlineSpec(pool, "us")
        return vitistack.ConfigurationOutline(meta, spec)

    indexes = {NAMESPACE_INDEX: list_namespaces_of}
    machines = Cache(vitistack.CONFIGURATIONS, indexes=indexes)
    allocations = Cache(vitistack.ALLOCATIONS, indexes=ALLOCATION_INDEXES)
    return _make_check(allocations, unreadable(machines, failures(outline, POOLS)))


def _make_check(allocations: Cache[Any], machines: Cache[Any]) -> Check:
    networks = Cache(vitistack.NETWORKS, indexes={NAMESPACE_INDEX: list_namespaces_of})
    caches = VitistackCaches(networks, allocations, configurations=machines, provider="us")
    return lambda: caches.check_readable(Key("p", "p"), allocations.unreadable)


@pytest.mark.parametrize("make_check", [of_kkp, of_vitistack_allocations, of_vitistack_machines])
def test_unreadable_objects_of_other_pools_are_not_looked_at(
    make_check: Callable[[], Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    check, looks = make_check(), list[str]()
    outline_of = unreadables.outline_of

    def count_outline(failure: str) -> Object | None:
        looks.append(failure)
        return outline_of(failure)

    monkeypatch.setattr(unreadables, "outline_of", count_outline)
    with pytest.raises(UnreadableHolders) as raised:
        check()
    assert [unreadable.key for unreadable in raised.value.objects] == [Key("p", "p")]
    assert len(looks) == 1
