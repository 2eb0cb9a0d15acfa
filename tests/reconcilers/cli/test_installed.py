"""Each command started as it is installed: every other start is a fork (tests/forkserver.py)."""

import subprocess

import pytest

from reconcilers.cli.main import COMMANDS
from tests.reconcilers.cli.commands import ROOT, find_installed_command, make_environment

SAMPLES = ("-f", str(ROOT / "manifests/samples"))
COMMANDS_THAT_END = {
    "crds": (("crds", "networkpool"), "kind: CustomResourceDefinition"),
    "explain": (("explain", "lab-cluster", *SAMPLES), "ProviderConfig"),
    "map": (("map", "lab-pool", *SAMPLES), "10.40.0.0/22"),
    "plan": (("plan", *SAMPLES), "team-platform-lab-cluster-lb"),
    "pools": (("pools", *SAMPLES), "lab-pool"),
    "release": (("release", "--help"), "Release a tenant's ranges"),
    "status": (("status", *SAMPLES), "NetworkPools"),
    "tenants": (("tenants", *SAMPLES), "lab-cluster"),
    "whois": (("whois", "10.40.1.0", *SAMPLES), "lab-pool"),
}
"""Commands that end, how they are called, and part of what they print."""
TESTED_ELSEWHERE = {
    "apiserver": "test_apiserver.py",
    "check": "test_up.py",
    "demo": "test_demo.py",
    "run": "test_run.py",
    "ui": "test_ui.py",
    "up": "test_up.py",
}
"""Commands that need a server or are one, and the tests that start them as they are installed."""


@pytest.mark.parametrize("command", COMMANDS_THAT_END)
def test_an_installed_command_imports_all_that_it_needs(command: str) -> None:
    arguments, part = COMMANDS_THAT_END[command]
    done = subprocess.run(
        find_installed_command(*arguments),
        capture_output=True,
        text=True,
        check=False,
        env=make_environment(),
    )
    assert "Traceback" not in done.stderr
    assert part in done.stdout


def test_each_installed_command_is_started_by_a_test() -> None:
    assert {*COMMANDS_THAT_END, *TESTED_ELSEWHERE} == {*COMMANDS}
    folder = ROOT / "tests/reconcilers/cli"
    for file in TESTED_ELSEWHERE.values():
        assert "program=find_installed_command" in (folder / file).read_text()
