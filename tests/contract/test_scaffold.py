"""Manifests that the scaffold generates from types and a manager: an operator works with them."""

import json
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx

from controller import (
    SETTLED,
    Condition,
    Key,
    Manager,
    ManagerOptions,
    Outcome,
    Owner,
    Resource,
    Untyped,
    Watch,
    add_finalizer,
    connect,
    ensure,
    remove_finalizer,
    set_condition,
    to_owner,
    to_self,
)
from controller.scaffold import (
    DeploymentSettings,
    Writes,
    create_crd,
    create_deployment,
    create_roles,
)
from envtest.plane import RunningControlPlane as Plane
from tests.contract.conftest import ask
from tests.contract.test_controllers import wait_until_gone
from tests.contract.test_readme import MERGE, wait_for_object
from tests.controller.test_scaffold import GADGETS, KIND, Gadget
from tests.polling import SECONDS
from tests.yamls import read_yaml

HOME = "gadgets-system"
PATH = "/apis/example.com/v1/namespaces/default/gadgets"
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", Untyped)
FINALIZER = "example.com/gadget"
OPTIONS = ManagerOptions(leader_elect=True, lease_namespace=HOME, lease_name="gadgets")
WRITES = [Writes(GADGETS, ("patch",), status=True, owner=True), Writes.for_children(CONFIG_MAPS)]
PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Deployment": "deployments",
}


class Gadgets:
    """An operator with a finalizer, a child, a status and events."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._gadgets = manager.get_informer(GADGETS)
        self._recorder = manager.add_recorder("example.com/gadgets")
        watches: list[Watch[Any]] = [
            Watch(self._gadgets, to_self),
            Watch(manager.get_informer(CONFIG_MAPS), to_owner(GADGETS)),
        ]
        manager.add_controller("gadgets", self.reconcile, watches=watches)

    async def reconcile(self, key: Key) -> Outcome:
        gadget = self._gadgets.cache.get(key)
        if gadget is None:
            return SETTLED
        client = self._manager.client
        if gadget.metadata.is_terminating:
            await remove_finalizer(client, GADGETS, gadget, FINALIZER)
            return SETTLED
        gadget = await add_finalizer(client, GADGETS, gadget, FINALIZER)
        body = {"metadata": {"name": key.name}, "data": {"most": str(gadget.spec.limits.most)}}
        await ensure(client, CONFIG_MAPS, Owner(gadget, GADGETS), body)
        await self._report(gadget)
        return SETTLED

    async def _report(self, gadget: Gadget) -> None:
        before = gadget.status.conditions
        condition = Condition("Ready", "True", "Made", "the ConfigMap is there")
        conditions = set_condition(before, condition, self._manager.clock.now())
        if conditions != before:
            status = {"conditions": conditions, "replicas": gadget.spec.limits.most}
            await self._manager.client.patch_status(GADGETS, gadget, status)


async def create_object(admin: httpx.AsyncClient, manifest: dict[str, Any]) -> None:
    """Create an object of the API server's own kinds."""
    version = manifest["apiVersion"]
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    namespace = manifest["metadata"].get("namespace")
    within = f"/namespaces/{namespace}" if namespace else ""
    answer = await admin.post(f"{root}{within}/{PLURALS[manifest['kind']]}", json=manifest)
    assert answer.status_code == 201, answer.text


async def write_operator_kubeconfig(admin: httpx.AsyncClient, plane: Plane, folder: Path) -> Path:
    """Return a kubeconfig with the token of the operator's ServiceAccount."""
    account = f"/api/v1/namespaces/{HOME}/serviceaccounts/gadgets/token"
    answer = await admin.post(account, json={"spec": {}})
    config = read_yaml(plane.get_kubeconfig())
    config["users"][0]["user"] = {"token": answer.json()["status"]["token"]}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


async def test_an_operator_works_under_the_roles_that_are_generated_from_its_manager(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await plane.install_crds([create_crd(KIND)])
    assert (
        await admin.post("/api/v1/namespaces", json={"metadata": {"name": HOME}})
    ).status_code == 201
    offline_manager = Manager(
        await connect(plane.write_kubeconfig(tmp_path / "admin")), options=OPTIONS
    )
    Gadgets(offline_manager)
    for manifest in create_roles(offline_manager, "gadgets", namespace=HOME, writes=WRITES):
        await create_object(admin, manifest)
    await offline_manager.aclose()
    serving_options = replace(OPTIONS, health_bind=":8081")
    await create_object(
        admin, create_deployment(DeploymentSettings("gadgets", HOME, "image"), serving_options)
    )

    transport = await connect(await write_operator_kubeconfig(admin, plane, tmp_path))
    async with aclosing(transport):
        manager = Manager(transport, options=OPTIONS)
        Gadgets(manager)
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            with anyio.fail_after(SECONDS):
                await check_gadget_is_reconciled(admin)
            manager.stop()
        failed = manager.metrics.registry.get_sample_value(
            "controller_runtime_reconcile_errors_total", {"controller": "gadgets"}
        )
        assert failed == 0


async def check_gadget_is_reconciled(admin: httpx.AsyncClient) -> None:
    """Create, scale and delete a gadget, and check its child, its status and its validation."""
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "a"},
        "spec": {"limits": {"least": 2, "most": 1}},
    }
    refused = await ask(admin, "POST", PATH, json=body)
    assert (refused.status_code, "least is above most" in refused.text) == (422, True)
    body["spec"] = {"limits": {}, "extra": {"kept": {"as": "it is"}}}
    created = await ask(admin, "POST", PATH, json=body)
    assert created.status_code == 201, created.text
    spec = created.json()["spec"]
    assert (spec["limits"], spec["mode"]) == ({"least": 1, "most": 3}, "safe")
    assert spec["extra"] == {"kept": {"as": "it is"}}

    maps = "/api/v1/namespaces/default/configmaps"
    await wait_for_object(
        admin, maps, name="a", holds=lambda child: child["data"] == {"most": "3"}
    )
    await wait_for_object(
        admin, PATH, name="a", holds=lambda gadget: gadget.get("status", {}).get("replicas") == 3
    )
    scaled = await ask(
        admin, "PATCH", f"{PATH}/a/scale", json={"spec": {"replicas": 5}}, headers=MERGE
    )
    assert scaled.is_success, scaled.text
    await wait_for_object(
        admin, maps, name="a", holds=lambda child: child["data"] == {"most": "5"}
    )
    assert (await ask(admin, "DELETE", f"{PATH}/a")).is_success
    await wait_until_gone(admin, f"{PATH}/a")
