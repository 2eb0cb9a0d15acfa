"""A tenant's API server may answer anything: nothing raises, and the deletion comes to an end."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.lab import TENANT_KINDS, Lab
from tests.reconcilers.server import Json, Server

GRACE = 600
"""Seconds of the teardown grace."""
SEEDS = range(6, 12)
Place = tuple[str | int, ...]
"""The path to a value in decoded JSON: names of fields and indexes of lists."""

VALUES: list[Any] = [
    *(None, "", True, -1, 0, 2**63, 2**64 - 1, 1e308, [], {}, [None], {"a": None}),
    *("9" * 5_000, "9" * 18, "x" * 300, "\x00", "../..", "a/b", "team/a", "team/b"),
    *("0001-01-01T00:00:00Z", "2026-01-01T00:00:00", "9999-12-31T23:59:59Z"),
    *(
        "10.40.0.0/24",
        "10.40.0.3-10.40.0.1",
        "0.0.0.0-255.255.255.255",
        "::/0",
        "192.0.2.1-192.0.2.5",
    ),
]
PROJECTION_ANNOTATIONS = (
    names.ANNOTATION_PROJECTION_BASIS,
    names.ANNOTATION_PROJECTION_SEEN,
    names.ANNOTATION_PROJECTION_OWNER,
    names.ANNOTATION_PROJECTION_MANAGEMENT,
)
KUBERNETES_FIELDS = (
    "metadata",
    "spec",
    "status",
    "uid",
    "generation",
    "deletionTimestamp",
    "addresses",
    "ip",
)


class HostileServer(Server):
    """An API server that replaces random values in its answers."""

    choices = random.Random(0)
    """Chooses the answers, places and values."""
    rate = 0.0
    """The share of answers that are changed, from 0 to 1."""

    @override
    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        answer = await super().request(method, path, **rest)
        if self.choices.random() >= self.rate:
            return answer
        return msgspec.json.encode(self._change(msgspec.json.decode(answer)))

    def _change(self, answer: Any) -> Any:
        """Return decoded JSON with one or three values replaced."""
        choose = self.choices.choice
        for _ in range(choose([1, 1, 3])):
            places = list(_list_places(answer))
            objects = [place for place in places if isinstance(_get_value(answer, place), dict)]
            annotation_maps = [path for path in objects if path and path[-1] == "annotations"]
            place, value = choose(places), choose(VALUES)
            if annotation_maps and self.choices.random() < 0.3:
                place = (*choose(annotation_maps), choose(PROJECTION_ANNOTATIONS))
            elif objects and self.choices.random() < 0.3:
                place = (*choose(objects), choose(KUBERNETES_FIELDS))
            answer = _set_value(answer, place, value)
        return answer


def _list_places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the place of each value in decoded JSON; `value` itself is at `place`."""
    yield place
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _list_places(item, (*place, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _list_places(item, (*place, number))


def _get_value(value: Any, place: Place) -> Any:
    """Return the value at a place in decoded JSON."""
    for name in place:
        value = value[name]
    return value


def _set_value(value: Any, place: Place, new: Any) -> Any:
    """Return a copy of decoded JSON with the value at a place replaced by `new`."""
    if not place:
        return new
    head, rest = place[0], place[1:]
    if isinstance(value, dict):
        return {**value, head: _set_value(value.get(head), rest, new)}
    return [_set_value(item, rest, new) if n == head else item for n, item in enumerate(value)]


def _make_elastic_lab() -> tuple[Lab, HostileServer]:
    """Return a lab with an elastic cluster, and the API server of its tenant with three Services.

    Two Services show an address, and one waits. The server answers truthfully until `rate` is set.
    """
    lab = Lab()
    sizes: Json = {"allocationMode": "elastic", "initialPoolSize": 2, "growthIncrement": 2}
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab", load_balancer=sizes))
    lab.server.add("tenantclusters", make.tenant())
    lab.start_tenant_server("a")
    kinds = (*TENANT_KINDS, "servicebgpstatuses", "configurationstates")
    hostile = lab.tenant_servers["a"] = HostileServer(lab.clock, kinds)
    for number in range(3):
        status = {"loadBalancer": {"ingress": [{"ip": f"10.40.0.{number}"}] * (number < 2)}}
        meta = {"name": f"web-{number}", "namespace": "default"}
        spec = {"type": "LoadBalancer"}
        hostile.add("services", {"metadata": meta, "spec": spec, "status": status})
    return lab, hostile


async def _run_passes(lab: Lab, choices: random.Random, passes: int) -> None:
    """Run passes over the cluster, its allocations and the pool, 1, 5 or 40 seconds apart."""
    for _ in range(passes):
        await lab.run_cluster_pass()
        for key in sorted(allocation.metadata.key for allocation in lab.caches["ipallocations"]):
            await lab.allocations.reconcile(key)
        await lab.run_pool_pass()
        await lab.clock.advance(choices.choice([1, 5, 40]))


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_a_tenant_answers_nothing_raises_and_its_deletion_ends(seed: int) -> None:
    lab, hostile = _make_elastic_lab()
    hostile.choices = random.Random(seed)
    lab.use_real_release_check()
    await _run_passes(lab, hostile.choices, 8)
    hostile.rate = hostile.choices.choice([0.1, 0.5, 1.0])
    await _run_passes(lab, hostile.choices, 12)
    lab.server.delete("tenantclusters", "a", namespace="team")
    for _ in range(3):
        await _run_passes(lab, hostile.choices, 8)
        await lab.clock.advance(GRACE)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipallocations") == []
