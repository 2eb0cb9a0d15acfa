"""MetalLB's controller as a child process: the real one where it is there, else a stand-in."""

import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from envtest import ControlPlane, PlaneError
from envtest.metallb import NAMESPACE, read_metallb_definitions, run_metallb_controller
from envtest.metallbaccess import POD, READER, create_metallb_access
from envtest.settings import EnvironmentSettings, read_settings
from tests.envtest.assets import Assets, list_left_behind
from tests.envtest.conftest import create_admin_client
from tests.polling import until

LOOKED = "metallb_k8s_client_updates_total 1\n"
NOT_YET = "metallb_k8s_client_updates_total 0\n"
POOLS = f"/apis/metallb.io/v1beta1/namespaces/{NAMESPACE}/ipaddresspools"
SERVICES = "/api/v1/namespaces/default/services"
_PARENT = """
import anyio
from envtest.metallb import run_metallb_controller

async def main():
    async with run_metallb_controller("a kubeconfig"):
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def read_environment(process: int) -> dict[str, str]:
    """Return the environment of a process."""
    content = Path(f"/proc/{process}/environ").read_text(encoding="utf-8")
    return dict(variable.partition("=")[::2] for variable in content.split("\0") if variable)


def read_private_text(path: str) -> str:
    """Return the content of a file that only its owner can read."""
    assert Path(path).stat().st_mode & 0o077 == 0
    return Path(path).read_text(encoding="utf-8")


async def test_metallb_runs_on_a_free_port_and_leaves_nothing_behind(assets: Assets) -> None:
    said = '{"msg":"MetalLB controller starting version 0.15.3 (no build information)"}'
    assets.add("metallb-controller", content=LOOKED, says=said)
    async with (
        run_metallb_controller("a kubeconfig") as first,
        run_metallb_controller("other") as other,
    ):
        assert (first.version, other.version) == ("0.15.3", "0.15.3")
        assert first.url != other.url
        assert await first.read_metrics() == LOOKED
        assert said in first.read_log()
        variables = read_environment(assets.list_process_ids("metallb-controller")[0])
        assert variables["METALLB_NAMESPACE"] == NAMESPACE
        assert read_private_text(variables["KUBECONFIG"]) == "a kubeconfig"
        assert "health-probe-port" not in assets.read_flags("metallb-controller"), "it knows none"
    assert list_left_behind(assets) == ([], [])


async def test_the_name_that_go_install_gives_is_found_too(assets: Assets) -> None:
    assets.add("controller", content=LOOKED)
    async with run_metallb_controller("a kubeconfig"):
        assert len(assets.list_process_ids("controller")) == 1


async def test_metallb_is_ready_when_it_has_read_the_pools(
    assets: Assets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "3s")
    assets.add("metallb-controller", content=NOT_YET, says="looking")
    with pytest.raises(PlaneError, match=r"is not ready after 3 seconds; .*\nlooking"):
        async with run_metallb_controller("a kubeconfig"):
            pass
    assert list_left_behind(assets) == ([], [])


async def test_a_port_that_is_taken_is_replaced_although_metallb_runs_on_without_it(
    assets: Assets,
) -> None:
    assets.add("metallb-controller", content=LOOKED, taken=2)
    async with run_metallb_controller("a kubeconfig"):
        assert len(assets.list_process_ids("metallb-controller")) == 3
        assert len(assets.list_running()) == 1
    assert list_left_behind(assets) == ([], [])


async def test_a_metallb_that_ends_at_once_is_reported_with_its_last_lines(assets: Assets) -> None:
    assets.add("metallb-controller", exit=1, says="no such flag\n" + "x" * 1000)
    with pytest.raises(PlaneError, match="metallb-controller ended with code 1; ") as refusal:
        async with run_metallb_controller("a kubeconfig"):
            pass
    assert str(refusal.value).splitlines()[1:] == ["no such flag", "x" * 300]
    assert list_left_behind(assets) == ([], [])


async def test_a_metallb_that_ends_later_is_reported_to_its_watcher(assets: Assets) -> None:
    assets.add("metallb-controller", content=LOOKED, says="out of luck")
    async with run_metallb_controller("a kubeconfig") as metallb:
        os.kill(assets.list_process_ids("metallb-controller")[0], signal.SIGKILL)
        with pytest.raises(PlaneError, match=r"ended with code -9; .*\nout of luck"):
            await metallb.raise_when_ended()
    assert list_left_behind(assets) == ([], [])


async def test_a_missing_metallb_is_reported(assets: Assets) -> None:
    with pytest.raises(PlaneError, match="put it into KUBEBUILDER_ASSETS as metallb-controller"):
        async with run_metallb_controller("a kubeconfig"):
            pass
    assert assets.list_running() == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of the killed")
def test_metallb_does_not_outlive_a_parent_that_is_killed(assets: Assets) -> None:
    assets.add("metallb-controller", content=LOOKED)
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        children = [os.pidfd_open(pid) for pid in assets.list_running()]
        parent.send_signal(signal.SIGKILL)
    assert len(children) == 1
    # A process file is readable once its process has ended.
    assert select.select(children, [], [], 20)[0] == children
    os.close(children[0])


def test_definitions_next_to_the_program_are_taken(assets: Assets) -> None:
    assets.add("metallb-controller")
    (assets.folder / "metallb-crds").mkdir()
    with pytest.raises(PlaneError, match="metallb-crds contains no CustomResourceDefinition"):
        read_metallb_definitions(read_settings())
    definition = "{kind: CustomResourceDefinition, metadata: {name: theirs}}"
    (assets.folder / "metallb-crds" / "one.yaml").write_text(definition)
    assert [
        definition["metadata"]["name"] for definition in read_metallb_definitions(read_settings())
    ] == ["theirs"]


async def test_a_metallb_that_reads_its_own_pod_finds_it_at_every_start() -> None:
    async with ControlPlane.start() as plane, create_admin_client(plane) as http:
        await create(http, "/api/v1/namespaces", NAMESPACE)
        for _ in range(2):
            token = await create_metallb_access(plane.get_kubeconfig(), NAMESPACE)
            user = await read_user(http, token)
            assert user["username"] == f"system:serviceaccount:{NAMESPACE}:{READER}"
            assert await may_read(http, user, "/metrics")
            assert not await may_read(http, user, "/logs")
        pod = await http.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{POD}")
        assert pod.status_code == 200


async def test_objects_for_metallb_cannot_be_created_without_its_namespace() -> None:
    async with ControlPlane.start() as plane:
        with pytest.raises(PlaneError, match=f'/pods: namespaces "{NAMESPACE}" not found'):
            await create_metallb_access(plane.get_kubeconfig(), NAMESPACE)


@pytest.mark.parametrize("content", ["a kubeconfig", "{clusters: []}", "a: [", "users: 1"])
async def test_a_kubeconfig_that_cannot_be_read_is_reported(content: str) -> None:
    with pytest.raises(PlaneError, match="needs a cluster and a user with everything inline"):
        await create_metallb_access(content, NAMESPACE)


@pytest.mark.parametrize("ours", [False, True], ids=["definitions-found", "definitions-of-ours"])
async def test_the_real_metallb_gives_a_service_an_address(ours: bool) -> None:
    settings = find_real_settings()
    chosen_settings = replace(settings, metallb=None) if ours else settings
    async with ControlPlane.start() as plane, create_admin_client(plane) as http:
        await plane.install_crds(read_metallb_definitions(chosen_settings))
        await create(http, "/api/v1/namespaces", NAMESPACE)
        async with run_metallb_controller(plane.get_kubeconfig(), settings) as metallb:
            assert metallb.version
            await create(http, POOLS, name="pool", spec={"addresses": ["192.0.2.7-192.0.2.8"]})
            await create(
                http, SERVICES, name="web", spec={"type": "LoadBalancer", "ports": [{"port": 80}]}
            )
            assert await wait_for_address(http, "web") == "192.0.2.7"
            assert "metallb_allocator_addresses_in_use_total" in await metallb.read_metrics()


async def read_user(http: httpx.AsyncClient, token: str) -> dict[str, Any]:
    """Return the user of a token."""
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    answer = await http.post(path, json={"spec": {"token": token}})
    user: dict[str, Any] = answer.json()["status"]["user"]
    return user


async def may_read(http: httpx.AsyncClient, user: dict[str, Any], path: str) -> bool:
    """Return whether RBAC allows a user to read what is at a path."""
    spec = {
        "user": user["username"],
        "groups": user["groups"],
        "nonResourceAttributes": {"path": path, "verb": "get"},
    }
    url = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = await http.post(url, json={"spec": spec})
    return bool(answer.json()["status"]["allowed"])


def find_real_settings() -> EnvironmentSettings:
    """Return the settings by which the real controller is found."""
    settings = read_settings()
    if settings.metallb is None:
        pytest.skip("MetalLB's controller is not in KUBEBUILDER_ASSETS")
    if settings.kind == "existing":
        pytest.skip("the cluster of USE_EXISTING_CLUSTER may have a MetalLB of its own")
    return settings


async def create(
    http: httpx.AsyncClient, path: str, name: str, spec: dict[str, Any] | None = None
) -> None:
    """Create an object."""
    body: dict[str, Any] = {"metadata": {"name": name}, "spec": spec or {}}
    if path == POOLS:
        body |= {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool"}
    answer = await http.post(path, json=body)
    assert answer.status_code == 201, answer.text


async def wait_for_address(http: httpx.AsyncClient, service: str) -> str:
    """Return the address of a Service as soon as it has one."""

    async def ingress() -> list[dict[str, Any]]:
        body = (await http.get(f"{SERVICES}/{service}")).json()
        return list(body["status"]["loadBalancer"].get("ingress", ()))

    return str((await until(ingress, bool))[0]["ip"])
