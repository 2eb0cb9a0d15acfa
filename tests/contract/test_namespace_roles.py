"""An operator that has roles in single namespaces, to which namespaces are added and removed."""

from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import httpx

from controller import (
    SETTLED,
    Key,
    Manager,
    NamespaceSet,
    Outcome,
    Owner,
    Watch,
    connect,
    ensure,
    to_owner,
    to_self,
)
from controller.scaffold import Writes, create_crd, create_roles
from envtest.plane import RunningControlPlane as Plane
from tests.contract.conftest import ask
from tests.contract.test_readme import wait_for_object
from tests.contract.test_scaffold import (
    CONFIG_MAPS,
    HOME,
    OPTIONS,
    create_object,
    write_operator_kubeconfig,
)
from tests.controller.test_scaffold import GADGETS, KIND
from tests.polling import SECONDS, until

WRITES = [Writes(GADGETS, owner=True), Writes.for_children(CONFIG_MAPS)]
Json = dict[str, Any]


class NamespacedOperator:
    """An operator that keeps a ConfigMap for each gadget in the namespaces of a set."""

    def __init__(self, manager: Manager, spaces: NamespaceSet) -> None:
        self._manager = manager
        self.spaces = spaces
        self.gadgets = manager.get_informer(GADGETS, namespaces=spaces)
        self.recorder = manager.add_recorder("example.com/gadgets")
        maps = manager.get_informer(CONFIG_MAPS, namespaces=spaces)
        watches: list[Watch[Any]] = [Watch(self.gadgets, to_self), Watch(maps, to_owner(GADGETS))]
        manager.add_controller("gadgets", self.reconcile, watches=watches)

    async def reconcile(self, key: Key) -> Outcome:
        gadget = self.gadgets.cache.get(key)
        if gadget is None or key.namespace not in self.spaces:
            return SETTLED
        body = {"metadata": {"name": key.name}, "data": {"most": str(gadget.spec.limits.most)}}
        child = await ensure(
            self._manager.client, CONFIG_MAPS, Owner(gadget, GADGETS), body, manager="gadgets"
        )
        if child.operation == "created":
            self.recorder.record(GADGETS, gadget, "Normal", "Made", "it is there", action="Make")
        return SETTLED


def filter_roles(objects: list[Json], namespace: str) -> list[Json]:
    """Return the Role and the RoleBinding of a namespace."""
    kinds = {"Role", "RoleBinding"}
    return [
        manifest
        for manifest in objects
        if manifest["kind"] in kinds and manifest["metadata"].get("namespace") == namespace
    ]


async def add_gadget(admin: httpx.AsyncClient, namespace: str, name: str = "a") -> None:
    """Create a gadget."""
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": name},
        "spec": {"limits": {}},
    }
    path = f"/apis/example.com/v1/namespaces/{namespace}/gadgets"
    answer = await ask(admin, "POST", path, json=body)
    assert answer.status_code == 201, answer.text


async def wait_for_child(admin: httpx.AsyncClient, namespace: str, name: str = "a") -> None:
    """Wait until the ConfigMap of a gadget exists."""
    await wait_for_object(
        admin, f"/api/v1/namespaces/{namespace}/configmaps", name=name, holds=lambda _: True
    )


async def wait_for_event(admin: httpx.AsyncClient, namespace: str) -> None:
    """Wait until the operator has written an Event in a namespace."""

    async def list_events() -> list[Mapping[str, Any]]:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        answer = await ask(admin, "GET", path)
        return [event for event in answer.json()["items"] if event["reason"] == "Made"]

    await until(list_events, bool)


async def test_gadgets_are_reconciled_in_namespaces_that_are_in_the_set_and_have_the_roles(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await plane.install_crds([create_crd(KIND)])
    for name in (HOME, "blue", "green", "red"):
        answer = await admin.post("/api/v1/namespaces", json={"metadata": {"name": name}})
        assert answer.status_code == 201, answer.text
    offline_manager = Manager(
        await connect(plane.write_kubeconfig(tmp_path / "admin")), options=OPTIONS
    )
    NamespacedOperator(offline_manager, NamespaceSet(["blue", "green"]))
    objects = create_roles(
        offline_manager, "gadgets", namespace=HOME, writes=WRITES, watched=["red"]
    )
    await offline_manager.aclose()
    assert not [manifest for manifest in objects if manifest["kind"].startswith("Cluster")]
    for manifest in objects:
        if manifest["metadata"].get("namespace") in {HOME, "blue"}:
            await create_object(admin, manifest)
    for namespace in ("blue", "green", "red"):
        await add_gadget(admin, namespace)

    transport = await connect(await write_operator_kubeconfig(admin, plane, tmp_path))
    async with aclosing(transport):
        manager = Manager(transport, options=OPTIONS)
        operator = NamespacedOperator(manager, NamespaceSet(["blue", "green"]))
        gadgets = operator.gadgets
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            with anyio.fail_after(SECONDS):
                await wait_for_child(admin, "blue")
                await wait_for_event(admin, "blue")
                assert gadgets.failures.keys() == {"green"}
                assert "403" in str(gadgets.failures["green"])
                assert gadgets.create_check().run() is None, (
                    "a forbidden namespace does not make the informer unready"
                )

                for manifest in filter_roles(objects, "green"):
                    await create_object(admin, manifest)
                await wait_for_child(admin, "green")
                for manifest in filter_roles(objects, "red"):
                    await create_object(admin, manifest)
                operator.spaces.add("red")
                await wait_for_child(admin, "red")
                assert dict(gadgets.failures) == {}

                operator.spaces.remove("blue")
                await until(lambda: _count_in(operator, "blue"), lambda count: count == 0)
                await add_gadget(admin, "blue", "b")
                await add_gadget(admin, "red", "b")
                await wait_for_child(admin, "red", "b")
                path = "/api/v1/namespaces/blue/configmaps/b"
                assert (await ask(admin, "GET", path)).status_code == 404
                operator.spaces.add("blue")
                await wait_for_child(admin, "blue", "b")
            manager.stop()
        failed = manager.metrics.registry.get_sample_value(
            "controller_runtime_reconcile_errors_total", {"controller": "gadgets"}
        )
        assert failed == 0


async def _count_in(operator: NamespacedOperator, namespace: str) -> int:
    """Return the number of gadgets of a namespace in the cache."""
    return sum(g.metadata.namespace == namespace for g in operator.gadgets.cache)
