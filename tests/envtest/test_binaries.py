"""Real control planes: how etcd and kube-apiserver are started, waited for and stopped.

The programs here are stand-ins (`stand_in.py`); with real ones in KUBEBUILDER_ASSETS the whole
suite runs on them.
"""

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
from ipaddress import ip_address
from pathlib import Path

import anyio
import httpx
import pytest
from anyio import to_thread

from envtest import ControlPlane, ListenError, PlaneError, User
from tests.envtest.assets import Assets, list_left_behind
from tests.envtest.samples import PATH, build_gauge, build_gauge_definition
from tests.polling import SECONDS

_PARENT = """
import sys, anyio
from envtest import ControlPlane

async def main():
    async with ControlPlane.start():
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def read_content(path: str) -> str:
    """Return the content of a file."""
    return Path(path).read_text(encoding="utf-8")


async def test_etcd_and_kube_apiserver_run_on_free_ports_and_leave_nothing_behind(
    assets: Assets,
) -> None:
    async with ControlPlane.start() as plane, ControlPlane.start() as other:
        assert (plane.kind, plane.controllers) == ("binaries", frozenset())
        assert plane.url != other.url
        assert len(assets.list_running()) == 4
        etcd, server = assets.read_flags("etcd"), assets.read_flags("kube-apiserver")
        assert server["etcd-servers"] == etcd["listen-client-urls"]
        assert server["authorization-mode"] == "RBAC"
    assert list_left_behind(assets) == ([], [])


async def test_the_server_gets_its_address_and_looks_for_no_route_out(assets: Assets) -> None:
    async with ControlPlane.start():
        reported = ip_address(assets.read_flags("kube-apiserver")["advertise-address"])
    # Of the family of its services, or it refuses to start.
    assert reported.version == 4
    assert not reported.is_unspecified


async def test_the_administrator_is_known_by_a_certificate(assets: Assets) -> None:
    async with ControlPlane.start() as plane:
        async with httpx.AsyncClient(base_url=plane.url, verify=plane.create_admin_tls()) as http:
            assert (await http.get("/version")).status_code == 200
        assert plane.build_admin_headers() == {}
        with pytest.raises(PlaneError, match="add it with add_user"):
            plane.get_kubeconfig("joe")
        assert "client-certificate-data" in await plane.add_user("joe", ["readers"])
    seen = next(
        note for note in assets.read_notes("kube-apiserver") if note.get("path") == "/version"
    )
    assert seen["subject"] == {"organizationName": "system:masters", "commonName": "admin"}


async def test_start_waits_until_the_server_is_ready(assets: Assets) -> None:
    assets.add("kube-apiserver", refusals=3)
    async with ControlPlane.start():
        paths = [note["path"] for note in assets.read_notes("kube-apiserver") if "path" in note]
    assert paths == ["/readyz"] * 4 + ["/api/v1/namespaces/default"]


@pytest.mark.parametrize("name", ["etcd", "kube-apiserver"])
async def test_a_program_that_ends_is_reported_with_its_last_lines(
    assets: Assets, name: str
) -> None:
    assets.add(name, exit=3, says="\n".join(f"line {n}" for n in range(40)))
    with pytest.raises(PlaneError, match=f"{name} ended with code 3; its last lines:") as refusal:
        async with ControlPlane.start():
            pass
    assert str(refusal.value).splitlines()[1:] == [f"line {n}" for n in range(25, 40)]
    assert list_left_behind(assets) == ([], [])


async def test_a_program_that_does_not_get_ready_is_given_up(
    assets: Assets, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets.add("kube-apiserver", refusals=10**6, says="waiting for something")
    monkeypatch.setenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "2s")
    with pytest.raises(
        PlaneError, match=r"is not ready after 2 seconds; .*\nwaiting for something"
    ):
        async with ControlPlane.start():
            pass
    assert list_left_behind(assets) == ([], [])


async def test_a_file_that_is_no_program_is_reported(assets: Assets) -> None:
    (assets.folder / "etcd").write_bytes(b"\x7fELF of another machine")
    with pytest.raises(PlaneError, match="etcd cannot be run: Exec format error"):
        async with ControlPlane.start():
            pass
    assert list_left_behind(assets) == ([], [])


@pytest.mark.parametrize("name", ["etcd", "kube-apiserver"])
async def test_a_port_that_is_taken_meanwhile_is_replaced(assets: Assets, name: str) -> None:
    assets.add(name, taken=2)
    async with ControlPlane.start():
        assert len(assets.list_process_ids(name)) == 3
        assert len(assets.list_running()) == 2
    assert list_left_behind(assets) == ([], [])


async def test_a_port_that_is_taken_is_replaced_where_the_output_is_shown(
    assets: Assets, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT", "true")
    assets.add("kube-apiserver", taken=1)
    async with ControlPlane.start():
        assert len(assets.list_process_ids("kube-apiserver")) == 2
    assert list_left_behind(assets) == ([], [])
    assert "address already in use" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("listen", "bound", "url"),
    [
        ("[::1]:0", "::1", "https://[::1]:"),
        ("0.0.0.0:0", "0.0.0.0", "https://127.0.0.1:"),
        (":0", "0.0.0.0", "https://127.0.0.1:"),
    ],
)
async def test_an_address_to_listen_on_is_read_as_by_the_embedded_server(
    assets: Assets, listen: str, bound: str, url: str
) -> None:
    if ":" in bound and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    async with ControlPlane.start(listen=listen) as plane:
        assert plane.url.startswith(url)
        assert assets.read_flags("kube-apiserver")["bind-address"] == bound


def _has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        return probe.connect_ex(("::1", 9)) != errno.EADDRNOTAVAIL


async def test_a_name_to_listen_on_is_refused_before_anything_starts(assets: Assets) -> None:
    with pytest.raises(ListenError, match="'localhost' is not one; write"):
        async with ControlPlane.start(listen="localhost:0"):
            pass
    assert list_left_behind(assets) == ([], [])


async def test_a_port_that_was_asked_for_is_not_replaced(assets: Assets) -> None:
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        bound_socket.listen()
        listen = f"127.0.0.1:{bound_socket.getsockname()[1]}"
        with pytest.raises(PlaneError, match="kube-apiserver found its port taken"):
            async with ControlPlane.start(listen=listen):
                pass
    assert len(assets.list_process_ids("kube-apiserver")) == 1


async def test_a_program_that_does_not_end_is_made_to(
    assets: Assets, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets.add("etcd", stubborn=True)
    monkeypatch.setenv("KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT", "100ms")
    async with ControlPlane.start():
        pass
    assert list_left_behind(assets) == ([], [])


async def test_a_start_that_is_cancelled_leaves_nothing_behind(
    assets: Assets, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    os.mkfifo(asked)
    assets.add("kube-apiserver", refusals=10**6, tells=str(asked))
    async with anyio.create_task_group() as tasks:

        async def start() -> None:
            async with ControlPlane.start():
                pass

        tasks.start_soon(start)
        with anyio.fail_after(SECONDS):
            await to_thread.run_sync(asked.read_bytes, abandon_on_cancel=True)
        tasks.cancel_scope.cancel()
    assert list_left_behind(assets) == ([], [])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of the killed")
def test_no_process_outlives_a_parent_that_is_killed(assets: Assets) -> None:
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        children = [os.pidfd_open(pid) for pid in assets.list_running()]
        parent.send_signal(signal.SIGKILL)
    assert len(children) == 2
    for child in children:
        # A process file is readable once its process has ended.
        assert select.select([child], [], [], 20)[0] == [child]
        os.close(child)


async def test_single_programs_win_over_the_folder(
    assets: Assets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "others").mkdir()
    others = Assets(tmp_path / "others")
    monkeypatch.setenv("TEST_ASSET_ETCD", str(others.add("etcd")))
    monkeypatch.setenv("TEST_ASSET_KUBE_APISERVER", str(others.add("kube-apiserver")))
    async with ControlPlane.start():
        assert (len(others.list_running()), assets.list_running()) == (2, [])


async def test_tokens_and_data_reach_the_programs(assets: Assets, tmp_path: Path) -> None:
    known = {"secret": User("joe", ("readers", "writers"), "1")}
    async with ControlPlane.start(tokens=known, data=tmp_path / "kept"):
        tokens = read_content(assets.read_flags("kube-apiserver")["token-auth-file"])
        assert assets.read_flags("etcd")["data-dir"] == str(tmp_path / "kept")
    assert tokens == 'secret,joe,1,"readers,writers"\n'


async def test_controllers_run_where_they_are_asked_for(assets: Assets) -> None:
    assets.add("kube-controller-manager", refusals=2)
    async with ControlPlane.start() as plane:
        assert (plane.controllers, len(assets.list_running())) == (frozenset(), 2)
    async with ControlPlane.start(namespace_controller=True) as plane:
        assert plane.controllers == {"namespaces"}
        flags = assets.read_flags("kube-controller-manager")
        assert flags["controllers"] == "namespace-controller"
        assert plane.url in read_content(flags["kubeconfig"])
        assert len(assets.list_running()) == 3
    async with ControlPlane.start(namespace_controller=True, garbage_collector=True) as plane:
        assert plane.controllers == {"namespaces", "garbage"}
        expected = "garbage-collector-controller,namespace-controller"
        assert assets.read_flags("kube-controller-manager")["controllers"] == expected
    assert list_left_behind(assets) == ([], [])


async def test_controllers_that_are_not_there_do_not_run(assets: Assets) -> None:
    async with ControlPlane.start(namespace_controller=True) as plane:
        assert plane.controllers == frozenset()


async def test_controllers_that_do_not_start_are_reported(assets: Assets) -> None:
    assets.add("kube-controller-manager", exit=1, says="no such controller")
    with pytest.raises(PlaneError, match=r"kube-controller-manager ended .*\nno such controller"):
        async with ControlPlane.start(garbage_collector=True):
            pass
    assert list_left_behind(assets) == ([], [])


def test_output_is_shown_where_that_is_asked_for(assets: Assets) -> None:
    assets.add("etcd", exit=1, says="here I am")
    code = _PARENT.replace("anyio.run(main)", "") + textwrap.dedent("""
        from envtest import PlaneError
        try:
            anyio.run(main)
        except PlaneError as error:
            print(error)
    """)
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "here I am" in process.stderr
    assert process.stdout == "etcd ended with code 1; its output is shown above\n"


async def test_a_cluster_that_runs_already_is_used_and_left_running(
    assets: Assets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ControlPlane.start(force_embedded=True) as cluster:
        monkeypatch.setenv("USE_EXISTING_CLUSTER", "true")
        monkeypatch.setenv("KUBECONFIG", str(cluster.write_kubeconfig(tmp_path / "config")))
        async with ControlPlane.start() as plane:
            assert (plane.kind, plane.url) == ("existing", cluster.url)
            await plane.install_crds([build_gauge_definition()])
        async with httpx.AsyncClient(
            base_url=cluster.url,
            verify=plane.create_admin_tls(),
            headers=plane.build_admin_headers(),
        ) as http:
            assert (await http.post(PATH, json=build_gauge("a"))).status_code == 201
    assert assets.read_notes("etcd") == []
