"""What every client may rely on, whichever server is behind the control plane."""

from pathlib import Path

import httpx
import pytest
import yaml

from envtest import PlaneError
from envtest.plane import RunningControlPlane as Plane
from tests.envtest.samples import PATH, build_gauge, build_gauge_definition


async def test_installed_kinds_are_served_at_once(plane: Plane, admin: httpx.AsyncClient) -> None:
    await plane.install_crds([build_gauge_definition()])
    created = await admin.post(PATH, json=build_gauge("a"))

    assert created.status_code == 201
    assert created.json()["spec"] == {"count": 1}


async def test_installing_a_definition_again_replaces_it(
    plane: Plane, admin: httpx.AsyncClient
) -> None:
    await plane.install_crds([build_gauge_definition()])
    other = build_gauge_definition()
    schema = other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["count"]["default"] = 5
    await plane.install_crds([other])

    names = []
    for number in range(100):
        created = await admin.post(PATH, json=build_gauge(f"a{number}"))
        names.append(created.json()["spec"]["count"])
        if names[-1] == 5:
            break
    assert names[-1] == 5


async def test_a_folder_of_definitions_is_installed(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "gauges.yaml").write_text(
        yaml.safe_dump(build_gauge_definition()), encoding="utf-8"
    )
    (tmp_path / "other.yaml").write_text("kind: Other\n", encoding="utf-8")
    await plane.install_crds(tmp_path)

    assert (await admin.get(PATH)).status_code == 200


async def test_a_refused_definition_is_reported_by_name(plane: Plane) -> None:
    bad = build_gauge_definition()
    bad["metadata"]["name"] = "wrong.lab.example.com"

    with pytest.raises(PlaneError, match=r"CRD wrong\.lab\.example\.com was refused: .*must be"):
        await plane.install_crds([bad])


async def test_a_new_user_may_do_nothing_until_it_is_bound(plane: Plane) -> None:
    config = yaml.safe_load(await plane.add_user("joe", ["readers"]))
    server = config["clusters"][0]["cluster"]["server"]
    credentials = config["users"][0]["user"]

    assert (server, config["users"][0]["name"]) == (plane.url, "joe")
    assert credentials.keys() <= {"token", "client-certificate-data", "client-key-data"}


async def test_a_kubeconfig_is_a_file_of_its_owner_alone(plane: Plane, tmp_path: Path) -> None:
    path = plane.write_kubeconfig(tmp_path / "sub" / "kubeconfig")

    assert path.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(path.read_text())["current-context"] == "envtest"


async def test_resource_versions_rise_and_a_stale_one_is_refused(
    plane: Plane, admin: httpx.AsyncClient
) -> None:
    await plane.install_crds([build_gauge_definition()])
    first = (await admin.post(PATH, json=build_gauge("a"))).json()
    merge = {"Content-Type": "application/merge-patch+json"}
    status = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}}
    patch = {**status, "status": {"count": 1}}

    second = await admin.patch(f"{PATH}/a/status", json=patch, headers=merge)
    stale = await admin.patch(f"{PATH}/a/status", json=patch, headers=merge)

    assert (second.status_code, stale.status_code) == (200, 409)
    before, after = (int(body["metadata"]["resourceVersion"]) for body in (first, second.json()))
    assert after > before


async def test_removing_the_last_finalizer_answers_with_the_old_revision(
    plane: Plane, admin: httpx.AsyncClient
) -> None:
    await plane.install_crds([build_gauge_definition()])
    body = build_gauge("a")
    body["metadata"]["finalizers"] = ["lab.example.com/hold"]
    await admin.post(PATH, json=body)
    marked = (await admin.delete(f"{PATH}/a")).json()
    merge = {"Content-Type": "application/merge-patch+json"}
    gone = await admin.patch(f"{PATH}/a", json={"metadata": {"finalizers": None}}, headers=merge)

    assert gone.json()["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    assert (await admin.get(f"{PATH}/a")).status_code == 404
