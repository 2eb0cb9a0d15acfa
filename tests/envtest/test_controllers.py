"""Namespace deletion and garbage collection, where they are switched on."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx

from envtest import ControlPlane
from tests.envtest.conftest import admin_client
from tests.envtest.samples import PATH, crd, gauge

MERGE = {"Content-Type": "application/merge-patch+json"}
FOREGROUND = {"propagationPolicy": "Foreground"}


@asynccontextmanager
async def cluster(
    *, namespace_controller: bool = False, garbage_collector: bool = False
) -> AsyncIterator[httpx.AsyncClient]:
    async with ControlPlane.start(
        force_embedded=True,
        namespace_controller=namespace_controller,
        garbage_collector=garbage_collector,
    ) as plane:
        await plane.install_crds([crd()])
        async with admin_client(plane) as http:
            yield http


async def becomes(http: httpx.AsyncClient, path: str, holds: Callable[[Any], bool]) -> Any:
    """Read after every change until what is read holds; fail when it does not in a while."""
    collection = path if path == PATH else path.rpartition("/")[0]
    with anyio.fail_after(5):
        async with http.stream("GET", collection, params={"watch": "true"}) as changes:
            lines = changes.aiter_lines()
            # The watch stands before the first look, so no change can be missed.
            while not holds(body := (await http.get(path)).json()):
                await anext(lines)
            return body


def is_gone(body: Any) -> bool:
    return bool(body.get("reason") == "NotFound")


async def owned(
    http: httpx.AsyncClient, name: str, *owners: dict[str, Any], block: bool = False
) -> Any:
    body = gauge(name)
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": one["apiVersion"],
            "kind": one["kind"],
            "name": one["metadata"]["name"],
            "uid": one["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for one in owners
    ]
    return (await http.post(PATH, json=body)).json()


async def test_a_deleted_namespace_goes_with_what_is_in_it() -> None:
    async with cluster(namespace_controller=True) as http:
        await http.post("/api/v1/namespaces", json={"metadata": {"name": "tmp"}})
        inside = "/api/v1/namespaces/tmp/configmaps"
        await http.post(inside, json={"metadata": {"name": "c"}})
        await http.delete("/api/v1/namespaces/tmp")
        await becomes(http, "/api/v1/namespaces/tmp", is_gone)

        assert (await http.get(inside)).json()["items"] == []


async def test_a_namespace_waits_for_finalizers_in_it() -> None:
    async with cluster(namespace_controller=True) as http:
        await http.post("/api/v1/namespaces", json={"metadata": {"name": "tmp"}})
        inside = PATH.replace("/default/", "/tmp/")
        body = gauge("a")
        body["metadata"]["finalizers"] = ["lab.example.com/hold"]
        await http.post(inside, json=body)
        await http.delete("/api/v1/namespaces/tmp")
        await becomes(http, f"{inside}/a", lambda one: "deletionTimestamp" in one["metadata"])
        held = (await http.get("/api/v1/namespaces/tmp")).json()
        await http.patch(f"{inside}/a", json={"metadata": {"finalizers": None}}, headers=MERGE)
        await becomes(http, "/api/v1/namespaces/tmp", is_gone)

    assert held["status"]["phase"] == "Terminating"


async def test_without_the_controller_a_namespace_stays_terminating() -> None:
    async with cluster() as http:
        await http.post("/api/v1/namespaces", json={"metadata": {"name": "tmp"}})
        await http.delete("/api/v1/namespaces/tmp")

        assert (await http.get("/api/v1/namespaces/tmp")).json()["status"][
            "phase"
        ] == "Terminating"


async def test_dependents_go_after_their_owner() -> None:
    async with cluster(garbage_collector=True) as http:
        owner = (await http.post(PATH, json=gauge("owner"))).json()
        child = await owned(http, "child", owner)
        await owned(http, "grandchild", child)
        await http.delete(f"{PATH}/owner")
        await becomes(http, PATH, lambda listed: not listed["items"])


async def test_a_dependent_of_two_stays_while_one_lives() -> None:
    async with cluster(garbage_collector=True) as http:
        one = (await http.post(PATH, json=gauge("one"))).json()
        two = (await http.post(PATH, json=gauge("two"))).json()
        await owned(http, "child", one, two)
        await http.delete(f"{PATH}/one")
        child = await becomes(
            http, f"{PATH}/child", lambda body: len(body["metadata"]["ownerReferences"]) == 1
        )

    assert child["metadata"]["ownerReferences"][0]["name"] == "two"


async def test_a_foreground_deletion_waits_for_blocking_dependents() -> None:
    async with cluster(garbage_collector=True) as http:
        owner = (await http.post(PATH, json=gauge("owner"))).json()
        child = await owned(http, "child", owner, block=True)
        merge = {"metadata": {"finalizers": ["lab.example.com/hold"]}}
        await http.patch(f"{PATH}/{child['metadata']['name']}", json=merge, headers=MERGE)
        await http.request("DELETE", f"{PATH}/owner", json=FOREGROUND)
        await becomes(http, f"{PATH}/child", lambda one: "deletionTimestamp" in one["metadata"])
        held = (await http.get(f"{PATH}/owner")).json()
        await http.patch(f"{PATH}/child", json={"metadata": {"finalizers": None}}, headers=MERGE)
        await becomes(http, PATH, lambda listed: not listed["items"])

    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_orphans_lose_their_reference_and_stay() -> None:
    async with cluster(garbage_collector=True) as http:
        owner = (await http.post(PATH, json=gauge("owner"))).json()
        await owned(http, "child", owner)
        await http.request("DELETE", f"{PATH}/owner", json={"propagationPolicy": "Orphan"})
        await becomes(http, f"{PATH}/owner", is_gone)

        assert "ownerReferences" not in (await http.get(f"{PATH}/child")).json()["metadata"]


async def test_an_owner_that_never_was_takes_its_dependent_along() -> None:
    async with cluster(garbage_collector=True) as http:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "no"}}
        await owned(http, "child", owner)
        await becomes(http, f"{PATH}/child", is_gone)
