"""`up` and `demo` with real programs: they name the programs, and stop all of them at the end.

Where MetalLB's controller is not the point, a fake program (`tests/envtest/assets.py`) runs beside
embedded servers.
"""

import os
import select
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from envtest.settings import EnvironmentSettings, read_settings
from tests.envtest.assets import Assets
from tests.polling import SECONDS
from tests.reconcilers.cli.commands import Kubectl, RunningCommand, run_to_end, start

READY = "Ctrl-C ends it"
VARIABLES = (
    "KUBEBUILDER_ASSETS",
    "TEST_ASSET_ETCD",
    "TEST_ASSET_KUBE_APISERVER",
    "TEST_ASSET_KUBE_CONTROLLER_MANAGER",
    "TEST_ASSET_METALLB_CONTROLLER",
    "TEST_ASSET_CILIUM_LBIPAM",
)
METRICS_OF_READY_CONTROLLER = "metallb_k8s_client_updates_total 1\n"
METRICS_OF_STARTING_CONTROLLER = "metallb_k8s_client_updates_total 0\n"
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are listed by /proc")


@dataclass
class ProgramChoice:
    """Sets the environment variables by which the next command finds its programs.

    Attributes:
        fake_programs: a folder for fake programs.
    """

    fake_programs: Assets
    monkeypatch: pytest.MonkeyPatch

    def set_programs(self, **variables: object) -> None:
        """Set these of VARIABLES, and unset the others."""
        for name in VARIABLES:
            self.monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            self.monkeypatch.setenv(name, str(value))

    def add_fake_metallb(self, **behaviour: object) -> Path:
        """Choose embedded servers and a fake MetalLB controller; return the path of the fake."""
        program = self.fake_programs.add("metallb-controller", **behaviour)
        self.set_programs(TEST_ASSET_METALLB_CONTROLLER=program)
        return program


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProgramChoice:
    """A choice of programs whose folder for fake programs is empty."""
    (tmp_path / "assets").mkdir()
    return ProgramChoice(Assets(tmp_path / "assets"), monkeypatch)


def read_real_settings() -> EnvironmentSettings:
    """Return the settings with the paths of the real programs; skip the test without them."""
    settings = read_settings()
    if settings.kind != "binaries":
        pytest.skip("KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver")
    if settings.metallb is None:
        pytest.skip("MetalLB's controller is not in KUBEBUILDER_ASSETS")
    return settings


def list_children(parent: int) -> dict[int, str]:
    """Return the names of the child processes of a process, by their ids."""
    process_ids: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines = (folder / "status").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            continue  # It has just ended.
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        if fields["PPid"] == str(parent):
            process_ids[int(folder.name)] = fields["Name"]
    return process_ids


def list_survivors(files: Mapping[int, str]) -> list[str]:
    """Wait up to 20 seconds for each process to end; return the names of those that have not.

    Args:
        files: names of processes by their pidfds, which are closed.
    """
    survivors = []
    for file, name in files.items():
        # A pidfd is readable once its process has ended.
        if not select.select([file], [], [], 20)[0]:
            survivors.append(name)
        os.close(file)
    return survivors


async def stop_by_signal(running: RunningCommand, number: int) -> tuple[set[str], list[str]]:
    """Send a signal to a command, and wait for its end.

    Returns:
        the names of its child processes, and of those that have survived it.
    """
    files = {os.pidfd_open(pid): name for pid, name in list_children(running.process.pid).items()}
    running.process.send_signal(signal.Signals(number))
    with anyio.fail_after(SECONDS):
        await running.process.wait()
    survivors = await anyio.to_thread.run_sync(list_survivors, files)
    return set(files.values()), survivors


async def test_up_says_that_servers_are_embedded_and_metallb_is_a_stand_in(
    programs: ProgramChoice,
) -> None:
    programs.set_programs()
    async with start("up", "--no-samples") as up:
        await up.wait_for_output(READY)
    first, second, third, *_ = up.stdout.splitlines()
    assert first == "Starting:"
    assert second.split(maxsplit=2) == ["API", "servers", "embedded"]
    assert third.split(maxsplit=1) == ["MetalLB", "a stand-in for it, one in each tenant"]
    assert "embedded API server; controllers" in up.stdout
    assert "embedded API server, stand-in for MetalLB;" in up.stdout


async def test_the_stand_in_for_lb_ipam_is_named_as_what_it_is(programs: ProgramChoice) -> None:
    programs.set_programs()
    async with start("up", "--no-samples", "--load-balancer=cilium") as up:
        await up.wait_for_output(READY)
    third = up.stdout.splitlines()[2]
    assert third.strip() == "Cilium LB-IPAM a stand-in for it, one in each tenant"
    assert "embedded API server, stand-in for Cilium LB-IPAM;" in up.stdout


@linux
async def test_up_names_the_real_lb_ipam_and_stops_it(tmp_path: Path) -> None:
    settings = read_settings()
    if settings.kind != "binaries" or settings.lbipam is None:
        pytest.skip("KUBEBUILDER_ASSETS names no etcd, kube-apiserver and cilium-lbipam")
    kubectl = Kubectl(tmp_path / "config", tmp_path / "cache")
    flags = ("--load-balancer=cilium", f"--kubeconfig={tmp_path / 'config'}")
    async with start("up", *flags) as up:
        await up.wait_for_output(READY)
        assert f"Cilium LB-IPAM real: {settings.lbipam}" in up.stdout
        assert "stand-in" not in up.stdout
        web = ("tenantcluster/web", "-n", "team-platform")
        await kubectl.wait("--for=jsonpath={.status.phase}=Ready", *web)
        children, survivors = await stop_by_signal(up, signal.SIGINT)
    assert {"etcd", "kube-apiserver", "cilium-lbipam"} <= children
    assert survivors == []


@linux
async def test_up_names_the_real_servers_and_the_real_metallb_and_stops_them(
    tmp_path: Path,
) -> None:
    settings = read_real_settings()
    kubectl = Kubectl(tmp_path / "config", tmp_path / "cache")
    async with start("up", f"--kubeconfig={tmp_path / 'config'}") as up:
        await up.wait_for_output(READY)
        lines = up.stdout.splitlines()
        assert f"real: {settings.apiserver}, {settings.etcd}" in lines[1]
        assert f"real: {settings.metallb}" in lines[2]
        assert "stand-in" not in up.stdout
        versions = await up.wait_for_output(
            r"tenant .* kube-apiserver (v1\.\d+\.\d+), MetalLB (\d+\.\d+\.\d+)"
        )
        assert all(versions.groups())
        lab = ("tenantcluster/lab-cluster", "-n", "team-platform")
        await kubectl.wait("--for=jsonpath={.status.phase}=Ready", *lab)
        children, survivors = await stop_by_signal(up, signal.SIGINT)
    assert {"etcd", "kube-apiserver", "metallb-control"} <= children
    assert survivors == []


@linux
async def test_no_real_process_outlives_an_up_that_is_killed(tmp_path: Path) -> None:
    read_real_settings()
    async with start("up", "--no-samples", f"--kubeconfig={tmp_path / 'config'}") as up:
        await up.wait_for_output(READY)
        children, survivors = await stop_by_signal(up, signal.SIGKILL)
    assert {"etcd", "kube-apiserver", "metallb-control"} <= children
    assert survivors == []


async def test_the_demo_plays_on_real_servers_with_the_stand_in(programs: ProgramChoice) -> None:
    settings = read_real_settings()
    programs.set_programs(
        TEST_ASSET_ETCD=settings.etcd, TEST_ASSET_KUBE_APISERVER=settings.apiserver
    )
    done = await run_to_end("demo", "--step-timeout=60s", seconds=300.0)
    printed = done.stdout.decode()
    assert done.returncode == 0, printed + done.stderr.decode()
    assert "All 28 steps happened" in printed
    assert "Service storefront has 10.40.0.16 (stand-in for MetalLB)" in printed


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_a_metallb_does_not_outlive_its_up(programs: ProgramChoice, number: int) -> None:
    programs.add_fake_metallb(content=METRICS_OF_READY_CONTROLLER)
    async with start("up", "--no-samples") as up:
        await up.wait_for_output(READY)
        children, survivors = await stop_by_signal(up, number)
    assert (len(children), survivors) == (1, [])


@linux
async def test_ctrl_c_while_metallb_is_not_ready_leaves_nothing_behind(
    programs: ProgramChoice,
) -> None:
    asked = programs.fake_programs.folder / "asked"
    os.mkfifo(asked)
    programs.add_fake_metallb(content=METRICS_OF_STARTING_CONTROLLER, tells=str(asked))
    async with start("up", "--no-samples") as up:
        with anyio.fail_after(SECONDS):
            await anyio.to_thread.run_sync(asked.read_bytes, abandon_on_cancel=True)
        children, survivors = await stop_by_signal(up, signal.SIGINT)
    assert (len(children), survivors) == (1, [])
    assert "stopped" in up.stdout
    assert up.stderr == ""


async def test_a_metallb_that_ends_at_once_is_reported_with_its_last_lines(
    programs: ProgramChoice,
) -> None:
    programs.add_fake_metallb(exit=3, says="no such flag")
    done = await run_to_end("up", "--no-samples")
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "error: MetalLB of tenant: metallb-controller ended with code 3; its last lines:",
        "no such flag",
    ]
    assert programs.fake_programs.list_running() == []


async def test_a_metallb_that_ends_later_ends_up_and_is_reported(programs: ProgramChoice) -> None:
    programs.add_fake_metallb(content=METRICS_OF_READY_CONTROLLER, says="out of luck")
    async with start("up", "--no-samples") as up:
        await up.wait_for_output(READY)
        os.kill(programs.fake_programs.list_process_ids("metallb-controller")[0], signal.SIGKILL)
        with anyio.fail_after(SECONDS):
            assert await up.process.wait() == 1
        await up.wait_for_output("out of luck")
    assert "error: MetalLB of tenant: metallb-controller ended with code -9" in up.stderr
    assert "Traceback" not in up.stderr


@pytest.mark.parametrize("command", ["up", "demo"])
async def test_a_metallb_that_is_no_program_gets_one_sentence(
    programs: ProgramChoice, command: str
) -> None:
    program = programs.add_fake_metallb()
    program.chmod(0o644)
    done = await run_to_end(command)
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.decode() == (
        f"error: TEST_ASSET_METALLB_CONTROLLER names {program}, which is not an executable file;"
        " correct or unset it\n"
    )


async def test_a_folder_that_lacks_one_server_gets_one_sentence(programs: ProgramChoice) -> None:
    programs.fake_programs.add("etcd")
    programs.fake_programs.add("metallb-controller")
    programs.set_programs(KUBEBUILDER_ASSETS=programs.fake_programs.folder)
    done = await run_to_end("up")
    missing = programs.fake_programs.folder / "kube-apiserver"
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"error: KUBEBUILDER_ASSETS names {missing}, which is not an executable file;"
        " correct or unset it\n"
    )
