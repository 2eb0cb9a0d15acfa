"""The lines of the documents that read a cluster work on `butler-ipam up`."""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.docs.text import (
    GUIDES,
    ROOT,
    Command,
    commands,
    list_butler_ipam_calls,
    list_fenced_blocks,
)
from tests.reconcilers.cli.commandline import run
from tests.reconcilers.cli.commands import Kubectl, make_environment, start

READY = "Ctrl-C ends it"
HOW_DO_I = "docs/operating/how-do-i.md"
"""The page whose lines change objects; a test of its own types all of them, in order."""
CILIUM_PAGE = "docs/operating/cilium.md"
"""The page whose lines need a tenant of Cilium; a test of its own types all of them."""
KUBECTL_READS = {"get", "describe", "wait", "apply"}
BUTLER_IPAM_READS = {"pools", "map", "whois", "tenants", "check"}
PARTS_OF_OTHER_LINES = (
    *("-k ", "kubectl kustomize", "install.yaml", "get lease", "restore.json", "crds |"),
    *(
        "ipaddressclaims",
        "ipaddresses.",
        "inclusterippools",
        "globalinclusterprefixpools",
        "caip-in-cluster",
    ),
    *("ipampools", "ipamallocations", "networknamespaces", "networkconfigurations"),
    "ipallocations.vitistack.io",
)
"""Texts of lines that need an installation with pods, another section's file, or other kinds."""
LINES_WITH_FINDINGS = ("check --tenants --strict",)
"""Endings of lines that exit with 1: a strict check reports the samples' missing tenants."""


def list_typed_commands() -> list[Command]:
    """Return the lines that read a cluster with the samples, in the order of the documents."""
    found_commands = []
    for document in GUIDES:
        if document in {HOW_DO_I, CILIUM_PAGE}:
            continue
        for command in commands(document):
            if not command.block or any(
                part in command.line_text for part in PARTS_OF_OTHER_LINES
            ):
                continue
            words = command.words
            is_kubectl_read = words[0] == "kubectl" and KUBECTL_READS & set(words)
            if is_kubectl_read or any(
                call and call[0] in BUTLER_IPAM_READS for call in list_butler_ipam_calls(command)
            ):
                found_commands.append(command)
    command_by_text = {command.line_text: command for command in found_commands}
    # The migration's backup line comes first, because its other lines read that backup.
    return sorted(
        command_by_text.values(), key=lambda command: "> ipam-backup" not in command.line_text
    )


async def run_command(command: Command, desk: Path, environ: Mapping[str, str]) -> tuple[int, str]:
    """Run a line in a folder; return its exit code and its standard error."""
    if calls := list_butler_ipam_calls(command):
        [call] = calls
        outcome = await anyio.to_thread.run_sync(partial(run, *call))
        return outcome.code, outcome.err
    line = command.line_text.replace("tenant.kubeconfig", str(desk.parent / "config-tenant"))
    with anyio.fail_after(60):
        done = await anyio.run_process(["sh", "-c", line], check=False, env=environ, cwd=desk)
    return done.returncode, done.stderr.decode()


async def test_every_line_that_reads_a_cluster_and_every_object_in_the_guides_works_on_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "manifests").symlink_to(ROOT / "manifests")
    kubectl = Kubectl(config, tmp_path / "cache")
    variables = make_environment(KUBECONFIG=str(config), KUBECACHEDIR=str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.chdir(desk)
    lines, failed = list_typed_commands(), []
    assert len(lines) > 25
    async with start("up", f"--kubeconfig={config}") as up:
        await up.wait_for_output(READY)
        for command in lines:
            code, error_output = await run_command(command, desk, variables)
            if code != command.line_text.endswith(LINES_WITH_FINDINGS):
                failed.append(
                    f"{command.place}: {command.line_text}: exit code {code}\n{error_output}"
                )
        documents = [document for document in GUIDES if document != CILIUM_PAGE]
        files = [block for document in documents for block in list_fenced_blocks(document, "yaml")]
        objects = [file for file in files if "apiVersion: " in file]  # others are configurations
        for block in objects:
            (desk / "object.yaml").write_text(block, encoding="utf-8")
            await kubectl.run("apply", "--dry-run=server", "-f", str(desk / "object.yaml"))
    assert failed == []
    assert objects
    assert (desk / "before.txt").read_text() == (desk / "after.txt").read_text() != ""


async def test_every_line_of_the_page_about_tasks_works_on_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("jq") is None:
        pytest.skip("no jq on this machine; a line of the page needs it")
    config = tmp_path / "config"
    desk = tmp_path / "desk"
    desk.mkdir()
    variables = make_environment(KUBECONFIG=str(config), KUBECACHEDIR=str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.chdir(desk)
    for block in list_fenced_blocks(HOW_DO_I, "yaml"):
        name = block.partition("\n")[0].removeprefix("# ")
        (desk / name).write_text(block, encoding="utf-8")
    kubectl = Kubectl(config, tmp_path / "cache")
    async with start("up", f"--kubeconfig={config}") as up:
        await up.wait_for_output(READY)
        for command in commands(HOW_DO_I):
            if command.block:
                code, error_output = await run_command(command, desk, variables)
                # There is no Lease, which `status` reports as a warning by exit code 3.
                assert code == (3 if command.line_text == "butler-ipam status" else 0), (
                    f"{command.place}: {command.line_text}: {error_output}"
                )
        columns = "custom-columns=N:.metadata.name,R:.status.cidr"
        listed = await kubectl.run("get", "ipallocations", "-A", "--no-headers", "-o", columns)
        ranges_by_name = dict(line.split() for line in listed.stdout.decode().splitlines())
        assert ranges_by_name["team-platform-lab-cluster-new"] == "10.40.2.0/28"
        assert "team-platform-lab-cluster-lb" not in ranges_by_name
        pools = await kubectl.run("get", "networkpools", "-A", "-o", "name")
        names = {line.rpartition("/")[2] for line in pools.stdout.decode().split()}
        assert "vlan47-pool" in names
        assert "prod-pool-primary" not in names


def test_lines_with_placeholders_are_filled_in_and_deletions_left_out() -> None:
    texts = [command.line_text for command in list_typed_commands()]
    assert "kubectl -n butler-system describe networkpool lab-pool" in texts
    assert any("--field-selector spec.poolRef.name=lab-pool" in command for command in texts)
    assert not any(command.startswith("kubectl delete") for command in texts)
