"""APIServices follow what is served; discovery lists groups in their order."""

import copy
from pathlib import Path
from typing import Any

import httpx

from envtest import ControlPlane
from envtest.plane import ControlPlane as Plane
from tests.envtest.components import REGISTRATION, named
from tests.envtest.conftest import admin_client
from tests.envtest.samples import GROUP, crd

PATH = f"{REGISTRATION}/apiservices"
MANAGED = "kube-aggregator.kubernetes.io/automanaged"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def service(http: httpx.AsyncClient, name: str) -> dict[str, Any]:
    answer = await http.get(f"{PATH}/{name}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_every_group_version_has_a_local_service_that_is_available(
    http: httpx.AsyncClient,
) -> None:
    core, apps = await service(http, "v1."), await service(http, "v1.apps")

    assert core["spec"] == {"groupPriorityMinimum": 18000, "version": "v1", "versionPriority": 1}
    assert apps["metadata"]["labels"] == {MANAGED: "onstart"}
    [condition] = apps["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Available", "True")
    assert (condition["reason"], condition["message"]) == (
        "Local",
        "Local APIServices are always available",
    )
    # The part that serves the APIServices is not asked through one.
    own = await http.get(f"{PATH}/v1.apiregistration.k8s.io")
    assert own.status_code == 404


async def test_a_custom_group_version_has_a_service_as_long_as_it_is_served(
    plane: Plane, http: httpx.AsyncClient
) -> None:
    first = await service(http, f"v1.{GROUP}")
    more = copy.deepcopy(crd())
    second = {**copy.deepcopy(more["spec"]["versions"][0]), "name": "v2", "storage": False}
    more["spec"]["versions"].append(second)
    await plane.install_crds([more])

    both = [await service(http, f"{version}.{GROUP}") for version in ("v1", "v2")]
    await http.delete(f"{DEFINITIONS}/gauges.{GROUP}")
    gone = [await http.get(f"{PATH}/{version}.{GROUP}") for version in ("v1", "v2")]

    assert first["metadata"]["labels"] == {MANAGED: "true"}
    assert first["spec"] == {
        "group": GROUP,
        "groupPriorityMinimum": 1000,
        "version": "v1",
        "versionPriority": 100,
    }
    assert both[0] == first
    assert both[1]["spec"]["version"] == "v2"
    assert [one.status_code for one in gone] == [404, 404]


async def test_a_service_of_a_custom_group_comes_back_when_it_is_deleted(
    http: httpx.AsyncClient,
) -> None:
    first = await service(http, f"v1.{GROUP}")
    await http.delete(f"{PATH}/v1.{GROUP}")

    assert (await service(http, f"v1.{GROUP}"))["metadata"]["uid"] != first["metadata"]["uid"]


async def test_services_of_a_data_folder_stay_who_they_are(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with (
            ControlPlane.start(force_embedded=True, data=tmp_path) as plane,
            admin_client(plane) as http,
        ):
            await plane.install_crds([crd()])
            seen.append([await service(http, name) for name in ("v1.apps", f"v1.{GROUP}")])

    assert seen[0] == seen[1]


async def test_another_server_can_be_registered_and_is_not_asked(http: httpx.AsyncClient) -> None:
    spec = {
        "group": "far.example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        "service": {"namespace": "default", "name": "far"},
    }

    answer = await http.post(PATH, json=named("v1.far.example.com", {"spec": spec}))

    assert answer.status_code == 201
    assert answer.json()["spec"]["service"]["port"] == 443
    assert answer.json()["status"] == {}
    told = "this server forwards no requests: nobody will answer for far.example.com/v1"
    assert told in answer.headers["Warning"]


async def test_groups_come_in_the_order_in_which_they_win(http: httpx.AsyncClient) -> None:
    wanted = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}

    plain = [one["name"] for one in (await http.get("/apis")).json()["groups"]]
    items = (await http.get("/apis", headers=wanted)).json()["items"]

    assert plain == [one["metadata"]["name"] for one in items]
    assert plain[:3] == ["apiregistration.k8s.io", "apps", "events.k8s.io"]
    assert plain[-1] == GROUP


async def test_hashes_tell_the_version_in_which_a_kind_is_stored(http: httpx.AsyncClient) -> None:
    hashes = {}
    for path in ("/apis/autoscaling/v1", "/apis/autoscaling/v2", "/apis/events.k8s.io/v1"):
        [first, *_] = (await http.get(path)).json()["resources"]
        hashes[path] = first["storageVersionHash"]

    assert hashes["/apis/autoscaling/v1"] == hashes["/apis/autoscaling/v2"]
    core = (await http.get("/api/v1")).json()["resources"]
    [event] = [one for one in core if one["name"] == "events"]
    assert event["storageVersionHash"] == hashes["/apis/events.k8s.io/v1"]
