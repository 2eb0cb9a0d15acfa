"""The entry point of the command line: commands, versions, wrong calls, and loaded modules."""

import json
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click.utils
import pytest

from reconcilers.cli import main as commands
from reconcilers.cli.flags import name_variable
from reconcilers.configuration.integrationnames import INTEGRATIONS
from tests.reconcilers.cli.commandline import make_pool, plan, run

EXAMPLES = Path(__file__).parents[3] / "examples/clusterapi"


def test_help_lists_every_command_without_loading_any() -> None:
    script = (
        "import sys\n"
        "from reconcilers.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in"
        " {'allocator', 'controller', 'envtest', 'pydantic', 'kubernetes_asyncio'}))\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert printed.splitlines()[-1] == "[]"
    for name, summary in commands.COMMANDS.items():
        assert f"  {name} " in printed
        assert summary in printed


def run_script(script: str) -> str:
    """Run a script in a new Python process, which must succeed; return its standard output."""
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout


def test_commands_that_read_a_cluster_load_no_modules_that_only_controllers_need() -> None:
    # All these commands import `tables`.
    script = (
        "import sys, reconcilers.cli.tables\n"
        "print([m for m in ('pydantic', 'prometheus_client', 'controller.leases',"
        " 'controller.manager', 'controller.webhooks', 'envtest', 'reconcilers.wiring')"
        " if m in sys.modules])\n"
    )
    assert run_script(script) == "[]\n"


@pytest.mark.parametrize("command", ["pools", "check", "map"])
def test_commands_on_files_load_no_event_loop_no_http_no_metrics_and_no_logging(
    command: str,
) -> None:
    heavy = [
        "structlog",
        "rich",
        "asyncio",
        "ssl",
        "aiohttp",
        "prometheus_client",
        "pydantic",
        "kubernetes_asyncio",
        "controller.manager",
        "importlib.resources",
    ]
    script = (
        "import sys\n"
        "from reconcilers.cli.main import main\n"
        f"try:\n    main(['{command}', '-f', '{EXAMPLES}'])\n"
        "except SystemExit:\n    pass\n"
        f"print([m for m in {heavy!r} if m in sys.modules])\n"
    )
    assert run_script(script).splitlines()[-1] == "[]"


def test_the_controllers_load_neither_pydantic_nor_the_embedded_api_server() -> None:
    script = (
        "import sys, reconcilers.cli.run\n"
        "print([m for m in ('pydantic', 'kubernetes_asyncio', 'envtest') if m in sys.modules])\n"
    )
    assert run_script(script) == "[]\n"


def test_up_and_demo_load_neither_pydantic_nor_the_generator_of_crds() -> None:
    script = (
        "import sys, reconcilers.cli.up, reconcilers.cli.demo.view\n"
        "print([m for m in ('pydantic', 'reconcilers.api.crd') if m in sys.modules])\n"
    )
    assert run_script(script) == "[]\n"


def test_the_module_of_run_loads_neither_integrations_nor_the_page() -> None:
    optional = [
        *(f"reconcilers.integrations.{name}" for name in INTEGRATIONS),
        "reconcilers.ui",
        "reconcilers.addressmap",
    ]
    assert [name for name in optional if find_spec(name) is None] == []
    script = (
        f"import sys, reconcilers.cli.run\nprint([m for m in {optional!r} if m in sys.modules])\n"
    )
    assert run_script(script) == "[]\n"


def test_the_check_for_packages_of_our_names_does_not_load_importlib_metadata() -> None:
    script = (
        "import sys\n"
        "sys.argv = ['butler-ipam', '--help']\n"
        "from reconcilers.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('importlib.metadata' in sys.modules)\n"
    )
    assert run_script(script).splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("module", "expected"), [("click", -signal.SIGINT), ("reconcilers.cli.plan", 130)]
)
def test_ctrl_c_while_modules_are_loaded_shows_no_traceback(module: str, expected: int) -> None:
    script = (
        "import os, signal, sys\n"
        # In a test run in the background, SIGINT is ignored by this process and its children.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['butler-ipam', 'plan', '-f', '-']\n"
        "from reconcilers.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, input=""
    )
    assert done.returncode == expected
    assert (done.stdout + done.stderr).strip() == ""


def test_an_interrupt_that_the_shell_ignores_stays_ignored() -> None:
    script = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "sys.argv = ['butler-ipam', '--version']\n"
        "from reconcilers.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN\n"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)


def test_plan_loads_no_kubernetes_client_no_embedded_api_server_and_no_pydantic() -> None:
    script = (
        "import io, sys\n"
        "from reconcilers.cli.main import main\n"
        f"sys.stdin = io.TextIOWrapper(io.BytesIO({json.dumps(make_pool()).encode()!r}))\n"
        "try:\n    main(['plan', '-f', '-'])\nexcept SystemExit:\n    pass\n"
        "unwanted = ('envtest', 'kubernetes_asyncio', 'cryptography', 'pydantic', 'structlog',"
        " 'aiohttp')\n"
        "print([m for m in unwanted if m in sys.modules])\n"
    )
    printed = run_script(script).splitlines()
    assert "10.40.0.0/24" in "".join(printed)
    assert printed[-1] == "[]"


def test_the_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    outcome = run("--version")
    assert (outcome.code, outcome.out) == (0, f"butler-ipam {version('butler-ipam')}\n")


def test_the_help_of_the_kubectl_plugin_uses_its_name_kubectl_ipam() -> None:
    assert run("-h", program="/usr/local/bin/kubectl-ipam").out.startswith("Usage: kubectl ipam ")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_has_a_short_and_a_long_flag(flag: str) -> None:
    assert run("plan", flag).out.startswith("Usage: butler-ipam plan ")


def test_a_mistyped_command_gets_the_nearest_name_and_exit_code_2() -> None:
    outcome = run("plna")
    assert outcome.code == 2
    assert outcome.errors == ["there is no command 'plna'; did you mean plan?"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plan"], "Missing option"),
        (["plan", "-f", "x", "-o", "xml"], "'xml' is not one of"),
        (["plan", "--nonsense"], "No such option"),
        (["--nonsense"], "No such option"),
    ],
)
def test_a_wrong_call_gets_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str
) -> None:
    outcome = run(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert len(outcome.errors) == 1
    assert sentence in outcome.errors[0]


def test_every_option_is_also_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUTLER_IPAM_OUTPUT", "yaml")
    monkeypatch.setenv("BUTLER_IPAM_NAMESPACE", "elsewhere")
    network_pool = make_pool()
    del network_pool["metadata"]["namespace"]
    import yaml

    outcome = run("plan", "-f", "-", stdin=yaml.safe_dump(network_pool).encode())
    assert yaml.safe_load(outcome.out)["items"][0]["metadata"]["namespace"] == "elsewhere"


def test_the_variable_of_a_flag_is_its_name_in_capitals() -> None:
    assert name_variable("--max-pool-addresses") == "BUTLER_IPAM_MAX_POOL_ADDRESSES"


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, no_color: str, is_coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(click.utils, "should_strip_ansi", lambda _stream, color: color is False)
    outcome = plan(make_pool(cidr="10.0.0.0/33"), options=["-o", "table"])
    assert ("\x1b" in outcome.err) == is_coloured
    assert ("\x1b" in outcome.out) == is_coloured


def test_a_pipe_gets_no_colours() -> None:
    outcome = plan(make_pool(cidr="10.0.0.0/33"))
    assert "\x1b" not in outcome.out + outcome.err


def test_work_that_ctrl_c_may_end_does_not_need_envtest() -> None:
    script = (
        "import sys\n"
        "sys.modules['envtest'] = None\n"  # as where it is not installed
        "from reconcilers.cli.interrupts import run_until_interrupted\n"
        "async def work():\n    print('done')\n"
        "run_until_interrupted(work)\n"
    )
    assert run_script(script) == "done\n"
