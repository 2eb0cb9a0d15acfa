"""All lines of the page about Cilium work on `butler-ipam up` with a tenant of Cilium."""

from pathlib import Path

import pytest

from tests.docs.test_on_a_cluster import CILIUM_PAGE, READY, run_command
from tests.docs.text import ROOT, commands, list_fenced_blocks
from tests.reconcilers.cli.commands import make_environment, start


@pytest.mark.long
async def test_every_line_of_the_page_about_cilium_works_on_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "manifests").symlink_to(ROOT / "manifests")
    variables = make_environment(KUBECONFIG=str(config), KUBECACHEDIR=str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.chdir(desk)
    for block in list_fenced_blocks(CILIUM_PAGE, "yaml"):
        name = block.partition("\n")[0].removeprefix("# ")
        (desk / name).write_text(block, encoding="utf-8")
    failed = []
    async with start("up", "--load-balancer=cilium", f"--kubeconfig={config}") as up:
        await up.wait_for_output(READY)
        for command in commands(CILIUM_PAGE):
            if command.block:
                code, error_output = await run_command(command, desk, variables)
                if code:
                    failed.append(f"{command.place}: {command.line_text}: {code}: {error_output}")
    assert failed == []
