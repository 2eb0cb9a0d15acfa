"""Controllers whose cache lags behind, and whose rights or kinds are missing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
import pytest

from controller import (
    SETTLED,
    AlreadyExists,
    Change,
    Key,
    Manager,
    ManagerOptions,
    NoAnswer,
    ObjectMeta,
    Outcome,
    Resource,
    Version,
    Watch,
    to_self,
)
from controller.errors import CacheLagging, ControllerError
from controller.informer import LAG_SECONDS
from controller.runner import Reconcile
from envtest.faults import LateRequest, LostAnswer, Match, Pause, Record
from tests.envtest.samples import GROUP, build_gauge, build_gauge_definition
from tests.faults.proxied import GAUGES, WATCH, Gauge, ProxiedPlane, proxied_plane, transport_to


@dataclass(frozen=True, slots=True)
class Bare:
    """An object of which only the metadata matters."""

    metadata: ObjectMeta


SETTINGS = Resource("", "v1", "ConfigMap", "configmaps", Bare)
DIALS = Resource(GROUP, "v1", "Dial", "dials", Bare)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", Bare, False)
BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", Bare, False
)


def dials() -> dict[str, object]:
    """Return the CRD of dials."""
    definition = build_gauge_definition()
    definition["metadata"]["name"] = f"dials.{GROUP}"
    definition["spec"]["names"] = {"plural": "dials", "singular": "dial", "kind": "Dial"}
    return definition


async def allow(here: ProxiedPlane, user: str, group: str, *plurals: str) -> None:
    """Let a user read some kinds."""
    name = "-".join((user, *plurals))
    rule = {"apiGroups": [group], "resources": plurals, "verbs": ["list", "watch"]}
    await here.direct.create(ROLES, "", {"metadata": {"name": name}, "rules": [rule]})
    body = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": ROLES.group, "kind": "User", "name": user}],
    }
    await here.direct.create(BINDINGS, "", body)


class Looks:
    """Reconcilers that note what they are asked to look at."""

    def __init__(self) -> None:
        self.seen: Record[str] = Record()

    def at(self, kind: str) -> Reconcile:
        """Return the reconciler of a kind."""

        async def look(key: Key) -> Outcome:
            self.seen.add(f"{kind} {key.name}")
            return SETTLED

        return look

    async def wait(self, look: str) -> None:
        """Wait until something was looked at."""
        await self.seen.wait(1, lambda seen_look: seen_look == look)


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[None]:
    """Run a manager."""
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_serving()
        yield
        group.cancel_scope.cancel()


async def readiness(manager: Manager) -> tuple[int, str]:
    """Return the answer of /readyz."""
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{manager.health_port}/readyz?verbose")
    return answer.status_code, answer.text


def watching(manager: Manager, looks: Looks, *kinds: Resource[Any]) -> None:
    """Add a controller for each kind."""
    for kind in kinds:
        watch = Watch(manager.informer(kind), to_self)
        manager.controller(kind.plural, looks.at(kind.plural), watches=[watch])


@pytest.fixture
def options() -> ManagerOptions:
    """A manager that serves its probes on a free port."""
    return ManagerOptions(health_bind="127.0.0.1:0")


async def test_a_missing_right_is_named_and_stops_no_other_controller(
    options: ManagerOptions,
) -> None:
    async with proxied_plane() as here:
        await here.proxy.add_user("joe")
        await allow(here, "joe", GROUP, "gauges")
        await here.create("a")
        await here.direct.create(SETTINGS, "default", {"metadata": {"name": "s"}})
        async with transport_to(here.proxy, "joe") as transport:
            manager, looks = Manager(transport, clock=here.clock, options=options), Looks()
            watching(manager, looks, GAUGES, SETTINGS)
            async with running(manager):
                await looks.wait("gauges a")
                await here.clock.pauses.wait(1)
                status, page = await readiness(manager)
                assert status == 503
                assert "[-]informer/configmaps failed: cannot list configmaps" in page
                assert "a role has to grant it" in page
                assert f"[+]informer/gauges.{GROUP} ok" in page

                await allow(here, "joe", "", "configmaps")
                await looks.wait("configmaps s")
                assert (await readiness(manager))[0] == 200


async def test_a_missing_kind_is_named_and_stops_no_other_controller(
    options: ManagerOptions,
) -> None:
    async with proxied_plane() as here:
        await here.create("a")
        manager, looks = Manager(here.transport, clock=here.clock, options=options), Looks()
        watching(manager, looks, GAUGES, DIALS)
        async with running(manager):
            await looks.wait("gauges a")
            await here.clock.pauses.wait(1)
            status, page = await readiness(manager)
            assert status == 503
            assert f"[-]informer/dials.{GROUP} failed: cannot list dials.{GROUP}" in page
            assert "is its CustomResourceDefinition installed?" in page

            await here.plane.install_crds([dials()])
            await here.direct.create(DIALS, "default", {"metadata": {"name": "d"}})
            await looks.wait("dials d")
            assert (await readiness(manager))[0] == 200


class Parent:
    """A reconciler that gives its gauge one child, of a name that the server chooses."""

    def __init__(self, here: ProxiedPlane) -> None:
        options = ManagerOptions(stream_lists=False)  # only the watch shall lag, not the list
        self.manager = Manager(here.transport, clock=here.clock, options=options)
        self.gauges = self.manager.informer(GAUGES)
        self.passes: Record[int] = Record()
        watch = Watch(self.gauges, to_self)
        self.controller = self.manager.controller("parent", self.look, watches=[watch])

    def children(self) -> list[Gauge]:
        """Return the children that the cache shows."""
        return [child for child in self.gauges.cache if child.metadata.name.startswith("child-")]

    async def look(self, key: Key) -> Outcome:
        if key.name == "parent":
            if not self.children():
                body = {"metadata": {"generateName": "child-"}, "spec": {}}
                await self.manager.client.create(GAUGES, "default", body)
            self.passes.add(len(self.children()))
        return SETTLED


async def test_a_controller_reads_its_own_writes_while_its_cache_lags() -> None:
    async with proxied_plane() as here:
        parent = await here.create("parent")
        gate = anyio.Event()
        reconciler = Parent(here)
        with here.proxy.inject(LateRequest(Pause(until=gate)), WATCH) as lag:
            async with running(reconciler.manager):
                await lag.struck.wait()
                for run in range(1, 4):
                    await reconciler.passes.wait(run)
                    reconciler.controller.queue.add(parent.metadata.key)
                (child,) = reconciler.children()
                assert reconciler.gauges.cache.position < child.metadata.revision
                gate.set()
                await here.create("later")
                await caught_up(reconciler)
                assert reconciler.children() == [child]
        assert set(reconciler.passes) == {1}
        assert len(here.list_calls("create")) == 1


async def caught_up(reconciler: Parent) -> None:
    """Wait until the watch has told of the gauge that was made last."""
    event = anyio.Event()
    later = Key("default", "later")

    def note(change: Change[Gauge]) -> None:
        if change.new is not None and change.new.metadata.key == later:
            event.set()

    reconciler.gauges.add_handler(note)
    await event.wait()


@asynccontextmanager
async def lagging(here: ProxiedPlane) -> AsyncIterator[tuple[Parent, anyio.Event]]:
    """Run a manager whose watch says nothing until the event is set."""
    gate = anyio.Event()
    reconciler = Parent(here)
    with here.proxy.inject(LateRequest(Pause(until=gate)), WATCH) as lag:
        async with running(reconciler.manager):
            await lag.struck.wait()
            yield reconciler, gate


async def test_a_write_that_does_not_come_back_is_named_and_measured() -> None:
    async with proxied_plane() as here, lagging(here) as (reconciler, gate):

        def error() -> ControllerError | None:
            return reconciler.gauges.last_error

        registry = reconciler.manager.metrics.registry
        kind = {"resource": f"gauges.{GROUP}"}
        await reconciler.manager.client.create(GAUGES, "default", build_gauge("ours"))
        await here.clock.advance(LAG_SECONDS)
        assert error() is None
        await here.clock.advance(1)
        lag = registry.get_sample_value("controller_cache_lag_seconds", kind)
        assert lag == pytest.approx(LAG_SECONDS + 1)
        assert isinstance(error(), CacheLagging)
        assert "has not been delivered yet" in str(error())

        gate.set()
        await here.create("later")
        await caught_up(reconciler)
        assert error() is None
        assert registry.get_sample_value("controller_cache_lag_seconds", kind) == 0


async def test_a_deleted_object_does_not_reappear_while_the_cache_lags() -> None:
    async with proxied_plane() as here:
        plain = await here.create("plain")
        body = build_gauge("held")
        body["metadata"]["finalizers"] = ["example.com/held"]
        held_gauge = await here.direct.create(GAUGES, "default", body)
        async with lagging(here) as (reconciler, gate):
            cache, client = reconciler.gauges.cache, reconciler.manager.client
            assert await client.delete(GAUGES, Version.from_object(plain)) is None
            assert cache.get(plain.metadata.key) is None

            going = await client.delete(GAUGES, Version.from_object(held_gauge))
            assert going is not None
            cached = cache.get(held_gauge.metadata.key)
            assert cached is not None
            assert cached.metadata.terminating
            await client.patch(
                GAUGES, Version.from_object(going), {"metadata": {"finalizers": []}}
            )
            assert cache.get(held_gauge.metadata.key) is None

            changes: list[Change[Gauge]] = []
            reconciler.gauges.add_handler(changes.append)
            gate.set()
            await here.create("later")
            await caught_up(reconciler)
            assert [child.metadata.name for child in cache] == ["later"]
            assert {change.new.metadata.name for change in changes if change.new} == {"later"}
            assert cache.tombstones == 0


async def test_a_name_used_again_after_our_deletion_shows_the_new_object() -> None:
    async with proxied_plane() as here:
        first = await here.create("a")
        async with lagging(here) as (reconciler, gate):
            client, cache = reconciler.manager.client, reconciler.gauges.cache
            await client.delete(GAUGES, Version.from_object(first))
            second = await client.create(GAUGES, "default", build_gauge("a"))
            assert cache.get(second.metadata.key) == second
            gate.set()
            await here.create("later")
            await caught_up(reconciler)
            assert cache.get(second.metadata.key) == second


async def test_a_write_whose_answer_was_lost_is_not_made_twice() -> None:
    async with proxied_plane() as here:
        created = Match(verb="create", resource="gauges", times=1)
        with here.proxy.inject(LostAnswer(), created):
            with pytest.raises(NoAnswer):
                await here.client.create(GAUGES, "default", build_gauge("a"))
            with pytest.raises(AlreadyExists):
                await here.client.create(GAUGES, "default", build_gauge("a"))
        assert len((await here.direct.list(GAUGES)).items) == 1
