"""Completion of words: for shells by click, and for kubectl by an executable of its own."""

import os
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import anyio
import pytest

from reconcilers.api.crd import build_crds
from reconcilers.cli.completion import main
from reconcilers.cli.local.servers import run_api_server
from reconcilers.cli.main import COMMANDS
from reconcilers.integrations.clusterapi.crds import build_pool_crds
from tests.reconcilers.cli.test_claims import make_ip_pool
from tests.reconcilers.cli.test_run import write_kubeconfig
from tests.reconcilers.cli.test_ui import create_object, create_pool

ROOT = Path(__file__).parents[3]
NO_FILES, FILES, FOLDERS = ":4", ":0", ":16"
"""Directives of kubectl (ShellCompDirective): which names of files the shell may add."""
RUN_MAIN = """
import sys
from reconcilers.cli.main import main
sys.argv = ["butler-ipam"]
try:
    main()
finally:
    print("pydantic" in sys.modules)
"""
"""A program that runs `butler-ipam`, and prints whether that has loaded pydantic."""


def complete_words(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """Return the completions for kubectl, without descriptions, and the directive below them."""
    main(words)
    *lines, directive = capsys.readouterr().out.splitlines()
    return [line.partition("\t")[0] for line in lines], directive


def test_kubectl_completes_commands_with_their_descriptions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main([""])
    *lines, directive = capsys.readouterr().out.splitlines()
    assert lines == [f"{name}\t{summary}" for name, summary in COMMANDS.items()]
    assert directive == NO_FILES


@pytest.mark.parametrize(
    ("words", "choices", "directive"),
    [
        (("pl",), ["plan"], NO_FILES),
        (("pools", "--conte"), ["--context"], NO_FILES),
        (("pools", "-o", "w"), ["wide"], NO_FILES),
        (("run", "--log-level", ""), ["debug", "info", "warning", "error"], NO_FILES),
        (("map", "--svg", ""), [], FILES),
        (("crds", "--directory", ""), [], FOLDERS),
        (("nonsense", ""), list(COMMANDS), NO_FILES),
        ((), list(COMMANDS), NO_FILES),
    ],
)
def test_the_last_word_is_completed(
    words: tuple[str, ...], choices: list[str], directive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete_words(capsys, *words) == (choices, directive)


def test_kubectl_finds_the_executable_by_its_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"]["kubectl_complete-ipam"] == f"{main.__module__}:{main.__name__}"
    assert project["scripts"]["kubectl-ipam"] == project["scripts"]["butler-ipam"]


def test_the_real_kubectl_completes_the_plugin(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on this machine; its completion of plugins is not tried")
    for name in ("kubectl-ipam", "kubectl_complete-ipam"):
        script = tmp_path / name
        code = "from reconcilers.cli.completion import main; main()"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
        script.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run(
        [kubectl, "__complete", "ipam", "pools", "-o", "w"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.split() == ["wide", NO_FILES]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_completion_script(shell: str) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", RUN_MAIN],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"_BUTLER_IPAM_COMPLETE": f"{shell}_source"},
    ).stdout
    assert f"_BUTLER_IPAM_COMPLETE={shell}_complete" in printed


def test_a_shell_completes_commands_without_loading_the_commands() -> None:
    env = os.environ | {
        "_BUTLER_IPAM_COMPLETE": "bash_complete",
        "COMP_WORDS": "butler-ipam p",
        "COMP_CWORD": "1",
    }
    printed = subprocess.run(
        [sys.executable, "-c", RUN_MAIN], capture_output=True, text=True, check=True, env=env
    ).stdout
    assert printed.split() == ["plain,plan", "plain,pools", "False"]


def test_contexts_are_completed_from_the_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    path.write_text("contexts: [{name: lab}, {name: live}, {name: prod}]")
    words = ("pools", f"--kubeconfig={path}", "--context", "l")
    assert complete_words(capsys, *words) == (["lab", "live"], NO_FILES)
    assert complete_words(capsys, "pools", "--kubeconfig=/nowhere", "--context", "") == (
        [],
        NO_FILES,
    )


async def test_pools_and_namespaces_are_completed_from_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with run_api_server("management", build_crds()) as server:
        await create_pool(server)
        config = write_kubeconfig(server, tmp_path)

        async def complete(*words: str) -> list[str]:
            completions, _ = await anyio.to_thread.run_sync(
                partial(complete_words, capsys, *words)
            )
            return completions

        assert await complete("map", config, "") == ["lab"]
        assert await complete("map", config, "x") == []
        for command in ("pools", "ui"):
            assert await complete(command, config, "-n", "butler") == ["butler-system"]
        assert await complete("map", config, "-n", "default", "") == []


async def test_pools_of_every_kind_are_completed_by_name_and_by_kind_and_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with run_api_server("management", [*build_crds(), *build_pool_crds()]) as server:
        await create_pool(server)
        for kind, name in (("inclusterippools", "machines"), ("inclusterippools", "lab")):
            body = make_ip_pool(name, "10.0.0.10") | {"metadata": {"name": name}}
            path = f"/apis/ipam.cluster.x-k8s.io/v1alpha2/namespaces/butler-system/{kind}"
            await create_object(server, path, body)
        config = write_kubeconfig(server, tmp_path)

        async def complete(word: str) -> list[str]:
            completions, _ = await anyio.to_thread.run_sync(
                partial(complete_words, capsys, "map", config, word)
            )
            return completions

        assert await complete("") == [
            *("inclusterippool/lab", "lab", "machines", "networkpool/lab"),
        ]
        assert await complete("mach") == ["machines"]
        assert await complete("in") == ["inclusterippool/lab", "inclusterippool/machines"]
        assert await complete("networkpool/") == ["networkpool/lab"]
