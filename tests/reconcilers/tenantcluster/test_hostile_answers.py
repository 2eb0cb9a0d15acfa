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
SEEDS = range(6, 12)
Place = tuple[str | int, ...]

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
NOTES = (
    names.ANNOTATION_PROJECTION_BASIS,
    names.ANNOTATION_PROJECTION_SEEN,
    names.ANNOTATION_PROJECTION_OWNER,
    names.ANNOTATION_PROJECTION_MANAGEMENT,
)
FIELDS = (
    "metadata",
    "spec",
    "status",
    "uid",
    "generation",
    "deletionTimestamp",
    "addresses",
    "ip",
)


class Hostile(Server):
    """Changes something in many of its answers, from a seed."""

    choices = random.Random(0)
    rate = 0.0

    @override
    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        answer = await super().request(method, path, **rest)
        if self.choices.random() >= self.rate:
            return answer
        return msgspec.json.encode(self._change(msgspec.json.decode(answer)))

    def _change(self, answer: Any) -> Any:
        choose = self.choices.choice
        for _ in range(choose([1, 1, 3])):
            places = list(_places(answer))
            objects = [place for place in places if isinstance(_at(answer, place), dict)]
            marked = [path for path in objects if path and path[-1] == "annotations"]
            where, value = choose(places), choose(VALUES)
            if marked and self.choices.random() < 0.3:
                where = (*choose(marked), choose(NOTES))
            elif objects and self.choices.random() < 0.3:
                where = (*choose(objects), choose(FIELDS))
            answer = _with(answer, where, value)
        return answer


def _places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Yield the place of each value in decoded JSON."""
    yield here
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _places(item, (*here, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _places(item, (*here, number))


def _at(value: Any, place: Place) -> Any:
    for name in place:
        value = value[name]
    return value


def _with(value: Any, place: Place, new: Any) -> Any:
    """Return a copy of decoded JSON with another value in one place."""
    if not place:
        return new
    head, rest = place[0], place[1:]
    if isinstance(value, dict):
        return {**value, head: _with(value.get(head), rest, new)}
    return [_with(item, rest, new) if n == head else item for n, item in enumerate(value)]


def _elastic() -> tuple[Lab, Hostile]:
    lab = Lab()
    sizes: Json = {"allocationMode": "elastic", "initialPoolSize": 2, "growthIncrement": 2}
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab", load_balancer=sizes))
    lab.server.add("tenantclusters", make.tenant())
    lab.tenant_server("a")
    kinds = (*TENANT_KINDS, "servicebgpstatuses", "configurationstates")
    hostile = lab.tenant_servers["a"] = Hostile(lab.clock, kinds)
    for number in range(3):
        status = {"loadBalancer": {"ingress": [{"ip": f"10.40.0.{number}"}] * (number < 2)}}
        meta = {"name": f"web-{number}", "namespace": "default"}
        spec = {"type": "LoadBalancer"}
        hostile.add("services", {"metadata": meta, "spec": spec, "status": status})
    return lab, hostile


async def _work(lab: Lab, choices: random.Random, passes: int) -> None:
    for _ in range(passes):
        await lab.cluster()
        for key in sorted(allocation.metadata.key for allocation in lab.caches["ipallocations"]):
            await lab.allocations.reconcile(key)
        await lab.pool()
        await lab.clock.advance(choices.choice([1, 5, 40]))


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_a_tenant_answers_nothing_raises_and_its_deletion_ends(seed: int) -> None:
    lab, hostile = _elastic()
    hostile.choices = random.Random(seed)
    lab.gate.real = lab.tenant_gate
    await _work(lab, hostile.choices, 8)
    hostile.rate = hostile.choices.choice([0.1, 0.5, 1.0])
    await _work(lab, hostile.choices, 12)
    lab.server.delete("tenantclusters", "a", namespace="team")
    for _ in range(3):
        await _work(lab, hostile.choices, 8)
        await lab.clock.advance(GRACE)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipallocations") == []
