"""What Tab offers: to a shell by click, and to kubectl by an executable of its own."""

import os
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import anyio
import pytest

from reconcilers.api.crd import crds
from reconcilers.cli.completion import main
from reconcilers.cli.local.servers import run_api_server
from reconcilers.cli.main import COMMANDS
from reconcilers.integrations.clusterapi.crds import crds as pool_crds
from tests.reconcilers.cli.test_claims import ip_pool
from tests.reconcilers.cli.test_run import kubeconfig
from tests.reconcilers.cli.test_ui import make_pool, post

ROOT = Path(__file__).parents[3]
CALL = """
import sys
from reconcilers.cli.main import main
sys.argv = ["butler-ipam"]
try:
    main()
finally:
    print("pydantic" in sys.modules)
"""


def list_offered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """Return the choices without their descriptions, and the number at the end."""
    main(words)
    *lines, last = capsys.readouterr().out.splitlines()
    return [line.partition("\t")[0] for line in lines], last


def test_kubectl_is_offered_the_commands_with_what_they_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main([""])
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == [f"{name}\t{summary}" for name, summary in COMMANDS.items()]
    assert last == ":4"


@pytest.mark.parametrize(
    ("words", "choices", "last"),
    [
        (("pl",), ["plan"], ":4"),
        (("pools", "--conte"), ["--context"], ":4"),
        (("pools", "-o", "w"), ["wide"], ":4"),
        (("run", "--log-level", ""), ["debug", "info", "warning", "error"], ":4"),
        (("map", "--svg", ""), [], ":0"),
        (("crds", "--directory", ""), [], ":16"),
        (("nonsense", ""), list(COMMANDS), ":4"),
        ((), list(COMMANDS), ":4"),
    ],
)
def test_the_last_word_is_completed(
    words: tuple[str, ...], choices: list[str], last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list_offered(capsys, *words) == (choices, last)


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
    assert done.stdout.split() == ["wide", ":4"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(shell: str) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", CALL],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"_BUTLER_IPAM_COMPLETE": f"{shell}_source"},
    ).stdout
    assert f"_BUTLER_IPAM_COMPLETE={shell}_complete" in printed


def test_the_shell_is_offered_commands_without_any_being_loaded() -> None:
    env = os.environ | {
        "_BUTLER_IPAM_COMPLETE": "bash_complete",
        "COMP_WORDS": "butler-ipam p",
        "COMP_CWORD": "1",
    }
    printed = subprocess.run(
        [sys.executable, "-c", CALL], capture_output=True, text=True, check=True, env=env
    ).stdout
    assert printed.split() == ["plain,plan", "plain,pools", "False"]


def test_contexts_are_offered_from_the_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    path.write_text("contexts: [{name: lab}, {name: live}, {name: prod}]")
    words = ("pools", f"--kubeconfig={path}", "--context", "l")
    assert list_offered(capsys, *words) == (["lab", "live"], ":4")
    assert list_offered(capsys, "pools", "--kubeconfig=/nowhere", "--context", "") == ([], ":4")


async def test_pools_and_namespaces_are_offered_from_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with run_api_server("management", crds()) as server:
        await make_pool(server)
        config = kubeconfig(server, tmp_path)

        async def ask_completions(*words: str) -> list[str]:
            completions, _ = await anyio.to_thread.run_sync(partial(list_offered, capsys, *words))
            return completions

        assert await ask_completions("map", config, "") == ["lab"]
        assert await ask_completions("map", config, "x") == []
        for command in ("pools", "ui"):
            assert await ask_completions(command, config, "-n", "butler") == ["butler-system"]
        assert await ask_completions("map", config, "-n", "default", "") == []


async def test_pools_of_every_kind_are_offered_by_name_and_by_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with run_api_server("management", [*crds(), *pool_crds()]) as server:
        await make_pool(server)
        for kind, name in (("inclusterippools", "machines"), ("inclusterippools", "lab")):
            body = ip_pool(name, "10.0.0.10") | {"metadata": {"name": name}}
            path = f"/apis/ipam.cluster.x-k8s.io/v1alpha2/namespaces/butler-system/{kind}"
            await post(server, path, body)
        config = kubeconfig(server, tmp_path)

        async def ask_completions(word: str) -> list[str]:
            completions, _ = await anyio.to_thread.run_sync(
                partial(list_offered, capsys, "map", config, word)
            )
            return completions

        assert await ask_completions("") == [
            *("inclusterippool/lab", "lab", "machines", "networkpool/lab"),
        ]
        assert await ask_completions("mach") == ["machines"]
        assert await ask_completions("in") == ["inclusterippool/lab", "inclusterippool/machines"]
        assert await ask_completions("networkpool/") == ["networkpool/lab"]
