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
from tests.faults.proxied import (
    GAUGES,
    WATCH,
    Gauge,
    ProxiedPlane,
    open_transport,
    run_proxied_plane,
)


@dataclass(frozen=True, slots=True)
class MetadataObject:
    """An object of which only the metadata matters."""

    metadata: ObjectMeta


CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", MetadataObject)
DIALS = Resource(GROUP, "v1", "Dial", "dials", MetadataObject)
ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", MetadataObject, False
)
BINDINGS = Resource(
    "rbac.authorization.k8s.io",
    "v1",
    "ClusterRoleBinding",
    "clusterrolebindings",
    MetadataObject,
    False,
)


def make_dial_crd() -> dict[str, object]:
    """Return the CRD of dials."""
    definition = build_gauge_definition()
    definition["metadata"]["name"] = f"dials.{GROUP}"
    definition["spec"]["names"] = {"plural": "dials", "singular": "dial", "kind": "Dial"}
    return definition


async def grant_read(proxied: ProxiedPlane, user: str, group: str, *plurals: str) -> None:
    """Let a user list and watch some kinds of a group."""
    name = "-".join((user, *plurals))
    rule = {"apiGroups": [group], "resources": plurals, "verbs": ["list", "watch"]}
    await proxied.direct.create(ROLES, "", {"metadata": {"name": name}, "rules": [rule]})
    body = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": ROLES.group, "kind": "User", "name": user}],
    }
    await proxied.direct.create(BINDINGS, "", body)


class Reconciliations:
    """Creates reconcilers that do nothing but record the objects of their passes."""

    def __init__(self) -> None:
        self.passes: Record[str] = Record()

    def make_reconciler(self, kind: str) -> Reconcile:
        """Return the reconciler of a kind, by its plural."""

        async def reconcile(key: Key) -> Outcome:
            self.passes.add(f"{kind} {key.name}")
            return SETTLED

        return reconcile

    async def wait(self, plural: str, name: str) -> None:
        """Wait until a reconciler was called with an object."""
        await self.passes.wait(1, lambda entry: entry == f"{plural} {name}")


@asynccontextmanager
async def run_manager(manager: Manager) -> AsyncIterator[None]:
    """Run a manager for the time of the context."""
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_serving()
        yield
        group.cancel_scope.cancel()


async def read_readiness(manager: Manager) -> tuple[int, str]:
    """Return status and text of /readyz?verbose."""
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{manager.health_port}/readyz?verbose")
    return answer.status_code, answer.text


def add_controllers(
    manager: Manager, reconciliations: Reconciliations, *kinds: Resource[Any]
) -> None:
    """Add a controller for each kind."""
    for kind in kinds:
        watch = Watch(manager.get_informer(kind), to_self)
        manager.add_controller(
            kind.plural, reconciliations.make_reconciler(kind.plural), watches=[watch]
        )


@pytest.fixture
def options() -> ManagerOptions:
    """A manager that serves its probes on a free port."""
    return ManagerOptions(health_bind="127.0.0.1:0")


async def test_a_missing_right_is_named_and_stops_no_other_controller(
    options: ManagerOptions,
) -> None:
    async with run_proxied_plane() as proxied:
        await proxied.proxy.add_user("joe")
        await grant_read(proxied, "joe", GROUP, "gauges")
        await proxied.create("a")
        await proxied.direct.create(CONFIG_MAPS, "default", {"metadata": {"name": "s"}})
        async with open_transport(proxied.proxy, "joe") as transport:
            manager, reconciliations = (
                Manager(transport, clock=proxied.clock, options=options),
                Reconciliations(),
            )
            add_controllers(manager, reconciliations, GAUGES, CONFIG_MAPS)
            async with run_manager(manager):
                await reconciliations.wait("gauges", "a")
                await proxied.clock.sleeps.wait(1)
                status, page = await read_readiness(manager)
                assert status == 503
                assert "[-]informer/configmaps failed: cannot list configmaps" in page
                assert "a role has to grant it" in page
                assert f"[+]informer/gauges.{GROUP} ok" in page

                await grant_read(proxied, "joe", "", "configmaps")
                await reconciliations.wait("configmaps", "s")
                assert (await read_readiness(manager))[0] == 200


async def test_a_missing_kind_is_named_and_stops_no_other_controller(
    options: ManagerOptions,
) -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        manager, reconciliations = (
            Manager(proxied.transport, clock=proxied.clock, options=options),
            Reconciliations(),
        )
        add_controllers(manager, reconciliations, GAUGES, DIALS)
        async with run_manager(manager):
            await reconciliations.wait("gauges", "a")
            await proxied.clock.sleeps.wait(1)
            status, page = await read_readiness(manager)
            assert status == 503
            assert f"[-]informer/dials.{GROUP} failed: cannot list dials.{GROUP}" in page
            assert "is its CustomResourceDefinition installed?" in page

            await proxied.plane.install_crds([make_dial_crd()])
            await proxied.direct.create(DIALS, "default", {"metadata": {"name": "d"}})
            await reconciliations.wait("dials", "d")
            assert (await read_readiness(manager))[0] == 200


class ParentReconciler:
    """A reconciler that gives its gauge one child, of a name that the server chooses."""

    def __init__(self, proxied: ProxiedPlane) -> None:
        options = ManagerOptions(stream_lists=False)  # only the watch shall lag, not the list
        self.manager = Manager(proxied.transport, clock=proxied.clock, options=options)
        self.gauges = self.manager.get_informer(GAUGES)
        self.passes: Record[int] = Record()
        watch = Watch(self.gauges, to_self)
        self.controller = self.manager.add_controller("parent", self.reconcile, watches=[watch])

    def list_children(self) -> list[Gauge]:
        """Return the children that the cache shows."""
        return [child for child in self.gauges.cache if child.metadata.name.startswith("child-")]

    async def reconcile(self, key: Key) -> Outcome:
        """Create the child unless the cache shows it; note how many it shows."""
        if key.name == "parent":
            if not self.list_children():
                body = {"metadata": {"generateName": "child-"}, "spec": {}}
                await self.manager.client.create(GAUGES, "default", body)
            self.passes.add(len(self.list_children()))
        return SETTLED


async def test_a_controller_reads_its_own_writes_while_its_cache_lags() -> None:
    async with run_proxied_plane() as proxied:
        parent = await proxied.create("parent")
        gate = anyio.Event()
        reconciler = ParentReconciler(proxied)
        with proxied.proxy.inject(LateRequest(Pause(until=gate)), WATCH) as lag:
            async with run_manager(reconciler.manager):
                await lag.affected_calls.wait()
                for pass_count in range(1, 4):
                    await reconciler.passes.wait(pass_count)
                    reconciler.controller.queue.add(parent.metadata.key)
                (child,) = reconciler.list_children()
                assert reconciler.gauges.cache.position < child.metadata.revision
                gate.set()
                await proxied.create("later")
                await wait_until_caught_up(reconciler)
                assert reconciler.list_children() == [child]
        assert set(reconciler.passes) == {1}
        assert len(proxied.list_calls("create")) == 1


async def wait_until_caught_up(reconciler: ParentReconciler) -> None:
    """Wait until the watch has delivered the gauge `later`, which a test creates last."""
    is_delivered = anyio.Event()
    later = Key("default", "later")

    def check(change: Change[Gauge]) -> None:
        if change.new is not None and change.new.metadata.key == later:
            is_delivered.set()

    reconciler.gauges.add_handler(check)
    await is_delivered.wait()


@asynccontextmanager
async def run_with_delayed_watch(
    proxied: ProxiedPlane,
) -> AsyncIterator[tuple[ParentReconciler, anyio.Event]]:
    """Run a manager whose watch delivers nothing until the yielded event is set."""
    gate = anyio.Event()
    reconciler = ParentReconciler(proxied)
    with proxied.proxy.inject(LateRequest(Pause(until=gate)), WATCH) as lag:
        async with run_manager(reconciler.manager):
            await lag.affected_calls.wait()
            yield reconciler, gate


async def test_a_write_that_does_not_come_back_is_named_and_measured() -> None:
    async with (
        run_proxied_plane() as proxied,
        run_with_delayed_watch(proxied) as (reconciler, gate),
    ):

        def find_error() -> ControllerError | None:
            return reconciler.gauges.last_error

        registry = reconciler.manager.metrics.registry
        kind = {"resource": f"gauges.{GROUP}"}
        await reconciler.manager.client.create(GAUGES, "default", build_gauge("ours"))
        await proxied.clock.advance(LAG_SECONDS)
        assert find_error() is None
        await proxied.clock.advance(1)
        lag = registry.get_sample_value("controller_cache_lag_seconds", kind)
        assert lag == pytest.approx(LAG_SECONDS + 1)
        assert isinstance(find_error(), CacheLagging)
        assert "has not been delivered yet" in str(find_error())

        gate.set()
        await proxied.create("later")
        await wait_until_caught_up(reconciler)
        assert find_error() is None
        assert registry.get_sample_value("controller_cache_lag_seconds", kind) == 0


async def test_a_deleted_object_does_not_reappear_while_the_cache_lags() -> None:
    async with run_proxied_plane() as proxied:
        plain = await proxied.create("plain")
        body = build_gauge("held")
        body["metadata"]["finalizers"] = ["example.com/held"]
        held_gauge = await proxied.direct.create(GAUGES, "default", body)
        async with run_with_delayed_watch(proxied) as (reconciler, gate):
            cache, client = reconciler.gauges.cache, reconciler.manager.client
            assert await client.delete(GAUGES, Version.from_object(plain)) is None
            assert cache.get(plain.metadata.key) is None

            terminating = await client.delete(GAUGES, Version.from_object(held_gauge))
            assert terminating is not None
            cached = cache.get(held_gauge.metadata.key)
            assert cached is not None
            assert cached.metadata.is_terminating
            await client.patch(
                GAUGES, Version.from_object(terminating), {"metadata": {"finalizers": []}}
            )
            assert cache.get(held_gauge.metadata.key) is None

            changes: list[Change[Gauge]] = []
            reconciler.gauges.add_handler(changes.append)
            gate.set()
            await proxied.create("later")
            await wait_until_caught_up(reconciler)
            assert [child.metadata.name for child in cache] == ["later"]
            assert {change.new.metadata.name for change in changes if change.new} == {"later"}
            assert cache.tombstones == 0


async def test_a_name_used_again_after_our_deletion_shows_the_new_object() -> None:
    async with run_proxied_plane() as proxied:
        first = await proxied.create("a")
        async with run_with_delayed_watch(proxied) as (reconciler, gate):
            client, cache = reconciler.manager.client, reconciler.gauges.cache
            await client.delete(GAUGES, Version.from_object(first))
            second = await client.create(GAUGES, "default", build_gauge("a"))
            assert cache.get(second.metadata.key) == second
            gate.set()
            await proxied.create("later")
            await wait_until_caught_up(reconciler)
            assert cache.get(second.metadata.key) == second


async def test_a_write_whose_answer_was_lost_is_not_made_twice() -> None:
    async with run_proxied_plane() as proxied:
        created = Match(verb="create", resource="gauges", times=1)
        with proxied.proxy.inject(LostAnswer(), created):
            with pytest.raises(NoAnswer):
                await proxied.client.create(GAUGES, "default", build_gauge("a"))
            with pytest.raises(AlreadyExists):
                await proxied.client.create(GAUGES, "default", build_gauge("a"))
        assert len((await proxied.direct.list(GAUGES)).items) == 1
