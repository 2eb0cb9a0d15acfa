"""Namespace deletion and garbage collection, where they are switched on."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx

from envtest import ControlPlane
from tests.envtest.conftest import create_admin_client
from tests.envtest.samples import PATH, build_gauge, build_gauge_definition
from tests.polling import SECONDS
from tests.streams import unwind_on_exit

MERGE = {"Content-Type": "application/merge-patch+json"}
FOREGROUND = {"propagationPolicy": "Foreground"}


@asynccontextmanager
async def start_cluster(
    *, namespace_controller: bool = False, garbage_collector: bool = False
) -> AsyncIterator[httpx.AsyncClient]:
    async with ControlPlane.start(
        force_embedded=True,
        namespace_controller=namespace_controller,
        garbage_collector=garbage_collector,
    ) as plane:
        await plane.install_crds([build_gauge_definition()])
        async with create_admin_client(plane) as http:
            yield http


async def wait_until_holds(
    http: httpx.AsyncClient, path: str, holds: Callable[[Any], bool]
) -> Any:
    """Read a path after each change until `holds` is true of its body; return the body.

    Raises:
        TimeoutError: it is not true within SECONDS.
    """
    collection = path if path == PATH else path.rpartition("/")[0]
    with anyio.fail_after(SECONDS):
        async with (
            http.stream("GET", collection, params={"watch": "true"}) as changes,
            unwind_on_exit(changes.aiter_lines()) as lines,
        ):
            # The watch stands before the first look, so no change can be missed.
            while not holds(body := (await http.get(path)).json()):
                await anext(lines)
            return body


def is_gone(body: Any) -> bool:
    return bool(body.get("reason") == "NotFound")


async def create_owned(
    http: httpx.AsyncClient, name: str, *owners: dict[str, Any], block: bool = False
) -> Any:
    body = build_gauge(name)
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    return (await http.post(PATH, json=body)).json()


async def test_a_deleted_namespace_is_removed_with_the_objects_in_it() -> None:
    async with start_cluster(namespace_controller=True) as http:
        await http.post("/api/v1/namespaces", json={"metadata": {"name": "tmp"}})
        inside = "/api/v1/namespaces/tmp/configmaps"
        await http.post(inside, json={"metadata": {"name": "c"}})
        await http.delete("/api/v1/namespaces/tmp")
        await wait_until_holds(http, "/api/v1/namespaces/tmp", is_gone)

        assert (await http.get(inside)).json()["items"] == []


async def test_a_label_with_the_name_of_a_field_deletes_nothing_and_hinders_no_deletion() -> None:
    labels = {"deletionTimestamp": "x"}
    async with start_cluster(namespace_controller=True) as http:
        for name in ("kept", "gone"):
            body = {"metadata": {"name": name, "labels": labels}}
            await http.post("/api/v1/namespaces", json=body)
            path = f"/api/v1/namespaces/{name}/configmaps"
            await http.post(path, json={"metadata": {"name": "c", "labels": labels}})
        await http.delete("/api/v1/namespaces/gone")
        await wait_until_holds(http, "/api/v1/namespaces/gone", is_gone)

        assert (await http.get("/api/v1/namespaces/kept/configmaps/c")).status_code == 200


async def test_a_namespace_waits_for_finalizers_in_it() -> None:
    async with start_cluster(namespace_controller=True) as http:
        await http.post("/api/v1/namespaces", json={"metadata": {"name": "tmp"}})
        inside = PATH.replace("/default/", "/tmp/")
        body = build_gauge("a")
        body["metadata"]["finalizers"] = ["lab.example.com/hold"]
        await http.post(inside, json=body)
        await http.delete("/api/v1/namespaces/tmp")
        await wait_until_holds(
            http, f"{inside}/a", lambda http: "deletionTimestamp" in http["metadata"]
        )
        namespace = (await http.get("/api/v1/namespaces/tmp")).json()
        await http.patch(f"{inside}/a", json={"metadata": {"finalizers": None}}, headers=MERGE)
        await wait_until_holds(http, "/api/v1/namespaces/tmp", is_gone)

    assert namespace["status"]["phase"] == "Terminating"


async def test_a_terminating_namespace_reports_its_objects_and_refuses_new_ones() -> None:
    async with start_cluster(namespace_controller=True) as http:
        await http.post("/api/v1/namespaces", json={"metadata": {"name": "tmp"}})
        inside = PATH.replace("/default/", "/tmp/")
        for name in ("a", "b"):
            body = build_gauge(name)
            body["metadata"]["finalizers"] = ["lab.example.com/hold"]
            await http.post(inside, json=body)
        await http.delete("/api/v1/namespaces/tmp")
        path = "/api/v1/namespaces/tmp"
        held_pod = await wait_until_holds(
            http, path, lambda pod: "conditions" in pod.get("status", {})
        )
        refused = await http.post(inside, json=build_gauge("c"))

    reported = {
        condition["type"]: (condition["status"], condition["message"])
        for condition in held_pod["status"]["conditions"]
    }
    assert reported == {
        "NamespaceDeletionDiscoveryFailure": ("False", "All resources successfully discovered"),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "Some resources are remaining: gauges.lab.example.com has 2 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            (
                "Some content in the namespace has finalizers remaining: "
                "lab.example.com/hold in 2 resource instances"
            ),
        ),
    }
    assert refused.status_code == 403
    assert refused.json()["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace tmp is being terminated",
            "field": "metadata.namespace",
        }
    ]


async def test_without_the_controller_a_namespace_stays_terminating() -> None:
    async with start_cluster() as http:
        await http.post("/api/v1/namespaces", json={"metadata": {"name": "tmp"}})
        await http.delete("/api/v1/namespaces/tmp")

        assert (await http.get("/api/v1/namespaces/tmp")).json()["status"][
            "phase"
        ] == "Terminating"


async def test_dependents_go_after_their_owner() -> None:
    async with start_cluster(garbage_collector=True) as http:
        owner = (await http.post(PATH, json=build_gauge("owner"))).json()
        child = await create_owned(http, "child", owner)
        await create_owned(http, "grandchild", child)
        await http.delete(f"{PATH}/owner")
        await wait_until_holds(http, PATH, lambda listed: not listed["items"])


async def test_a_dependent_of_two_owners_stays_while_one_exists() -> None:
    async with start_cluster(garbage_collector=True) as http:
        gauge_body = (await http.post(PATH, json=build_gauge("one"))).json()
        two = (await http.post(PATH, json=build_gauge("two"))).json()
        await create_owned(http, "child", gauge_body, two)
        await http.delete(f"{PATH}/one")
        child = await wait_until_holds(
            http, f"{PATH}/child", lambda body: len(body["metadata"]["ownerReferences"]) == 1
        )

    assert child["metadata"]["ownerReferences"][0]["name"] == "two"


async def test_a_foreground_deletion_waits_for_blocking_dependents() -> None:
    async with start_cluster(garbage_collector=True) as http:
        owner = (await http.post(PATH, json=build_gauge("owner"))).json()
        child = await create_owned(http, "child", owner, block=True)
        merge = {"metadata": {"finalizers": ["lab.example.com/hold"]}}
        await http.patch(f"{PATH}/{child['metadata']['name']}", json=merge, headers=MERGE)
        await http.request("DELETE", f"{PATH}/owner", json=FOREGROUND)
        await wait_until_holds(
            http, f"{PATH}/child", lambda http: "deletionTimestamp" in http["metadata"]
        )
        body = (await http.get(f"{PATH}/owner")).json()
        await http.patch(f"{PATH}/child", json={"metadata": {"finalizers": None}}, headers=MERGE)
        await wait_until_holds(http, PATH, lambda listed: not listed["items"])

    assert body["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_orphans_lose_their_reference_and_stay() -> None:
    async with start_cluster(garbage_collector=True) as http:
        owner = (await http.post(PATH, json=build_gauge("owner"))).json()
        await create_owned(http, "child", owner)
        await http.request("DELETE", f"{PATH}/owner", json={"propagationPolicy": "Orphan"})
        await wait_until_holds(http, f"{PATH}/owner", is_gone)

        assert "ownerReferences" not in (await http.get(f"{PATH}/child")).json()["metadata"]


async def test_an_owner_that_never_was_takes_its_dependent_along() -> None:
    async with start_cluster(garbage_collector=True) as http:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "no"}}
        await create_owned(http, "child", owner)
        await wait_until_holds(http, f"{PATH}/child", is_gone)


async def test_an_owner_in_another_namespace_owns_nothing_and_an_event_says_so() -> None:
    async with start_cluster(garbage_collector=True) as http:
        await http.post("/api/v1/namespaces", json={"metadata": {"name": "other"}})
        owner = (await http.post(PATH.replace("default", "other"), json=build_gauge("far"))).json()
        child = await create_owned(http, "child", owner)
        await wait_until_holds(http, f"{PATH}/child", is_gone)
        events = (await http.get("/api/v1/namespaces/default/events")).json()["items"]

    uid = owner["metadata"]["uid"]
    assert [
        (event["reason"], event["involvedObject"]["uid"], event["message"]) for event in events
    ] == [
        (
            "OwnerRefInvalidNamespace",
            child["metadata"]["uid"],
            (
                f"ownerRef [lab.example.com/v1/Gauge, namespace: default, name: far, uid: {uid}] "
                'does not exist in namespace "default"'
            ),
        )
    ]


async def test_an_owner_is_known_by_its_kind_and_name_as_well() -> None:
    async with start_cluster(garbage_collector=True) as http:
        owner = (await http.post(PATH, json=build_gauge("owner"))).json()
        owner["metadata"]["name"] = "renamed"
        await create_owned(http, "child", owner)
        await wait_until_holds(http, f"{PATH}/child", is_gone)


async def test_what_cannot_be_looked_up_is_kept() -> None:
    unknown = {"apiVersion": "no/v1", "kind": "Such", "metadata": {"name": "x", "uid": "1"}}
    async with start_cluster(garbage_collector=True) as http:
        owner = (await http.post(PATH, json=build_gauge("owner"))).json()
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        meta = {"name": "wide", "ownerReferences": [reference]}
        await http.post("/api/v1/namespaces", json={"metadata": meta})
        await create_owned(http, "strange", unknown)
        await create_owned(http, "marker", owner)
        await http.delete(f"{PATH}/owner")
        await wait_until_holds(http, f"{PATH}/marker", is_gone)

        assert (await http.get(f"{PATH}/strange")).status_code == 200
        wide = (await http.get("/api/v1/namespaces/wide")).json()
        events = (await http.get("/api/v1/namespaces/default/events")).json()["items"]

    assert wide["status"]["phase"] == "Active"
    assert [(event["reason"], event["involvedObject"]["name"]) for event in events] == [
        ("OwnerRefInvalidNamespace", "wide")
    ]


async def test_dependents_are_deleted_with_owners_whose_kind_is_deleted() -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    async with start_cluster(garbage_collector=True) as http:
        owner = (await http.post(PATH, json=build_gauge("owner"))).json()
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        meta = {"name": "child", "ownerReferences": [reference]}
        await http.post(maps, json={"metadata": meta})
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await http.delete(f"{definitions}/gauges.lab.example.com")
        await wait_until_holds(http, f"{maps}/child", is_gone)


async def test_a_cluster_scoped_owner_may_own_namespaced_objects() -> None:
    async with start_cluster(garbage_collector=True) as http:
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        body = {"metadata": {"name": "owner"}, "rules": []}
        owner = (await http.post(roles, json=body)).json()
        lone = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "no"}}
        await create_owned(http, "child", owner)
        await create_owned(http, "marker", lone)
        await wait_until_holds(http, f"{PATH}/marker", is_gone)
        kept = await http.get(f"{PATH}/child")
        await http.delete(f"{roles}/owner")
        await wait_until_holds(http, f"{PATH}/child", is_gone)

    assert kept.status_code == 200


async def test_a_circle_of_owners_is_deleted_in_the_foreground_too() -> None:
    async with start_cluster(garbage_collector=True) as http:
        first = (await http.post(PATH, json=build_gauge("first"))).json()
        second = await create_owned(http, "second", first, block=True)
        reference = {
            "apiVersion": second["apiVersion"],
            "kind": second["kind"],
            "name": "second",
            "uid": second["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        merge = {"metadata": {"ownerReferences": [reference]}}
        await http.patch(f"{PATH}/first", json=merge, headers=MERGE)
        await http.request("DELETE", f"{PATH}/first", json=FOREGROUND)
        await wait_until_holds(http, PATH, lambda listed: not listed["items"])
