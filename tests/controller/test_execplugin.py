"""Exec plugins of kubeconfigs: what they may ask on a terminal, and that they end with us."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from controller import execplugin
from controller.config import connect
from controller.errors import ConfigurationError
from tests.controller.kubeconfigs import write_kubeconfig
from tests.polling import make_awaitable, until
from tests.program import script

VERSION = "client.authentication.k8s.io/v1"
ASKS = f"""
printf 'the code: ' >&2
read code || code=none
echo '{{"apiVersion": "{VERSION}", "kind": "ExecCredential", "status": {{"token": "'$code'"}}}}'
echo "$KUBERNETES_EXEC_INFO" > TOLD
"""
CONNECT = """
import sys
from pathlib import Path
import anyio
from controller.config import connect

async def main():
    transport = await connect(Path(sys.argv[1]), may_ask=sys.argv[2] == "may ask")
    print(await transport._endpoint.credentials.get_authorization())
    await transport.aclose()

anyio.run(main)
"""


def write_plugin(folder: Path, content: str, **more: str) -> Path:
    """Return a kubeconfig whose user has a shell script as its plugin."""
    described = {"apiVersion": VERSION, "command": "sh", "args": ["-c", content], **more}
    return write_kubeconfig(folder / "kubeconfig", "https://127.0.0.1:1", {"exec": described})


def write_waiting_plugin(folder: Path, before: str = "") -> tuple[Path, Path]:
    """Return a kubeconfig whose plugin waits, and the file that then has its process's id."""
    started = folder / "started"
    shell_script = f"{before} echo $$ > {started}.new; mv {started}.new {started}; exec sleep 600"
    return write_plugin(folder, shell_script), started


def is_running(process: int) -> bool:
    """Return whether a process with this id exists; a zombie counts, too."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("before", ["", "trap '' INT TERM;"], ids=["plain", "deaf"])
async def test_a_plugin_that_waits_has_ended_when_its_caller_was_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    monkeypatch.setattr(execplugin, "ENDING_SECONDS", 0.01)
    file, started = write_waiting_plugin(tmp_path, before)
    async with anyio.create_task_group() as group:
        group.start_soon(connect, file)
        await until(make_awaitable(started.exists), bool)
        group.cancel_scope.cancel()
    assert not is_running(int(started.read_text()))


async def test_a_plugin_may_end_by_itself_when_its_caller_was_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execplugin, "ENDING_SECONDS", 600.0)
    started, tidied = tmp_path / "started", tmp_path / "tidied"
    trap = f"trap 'kill $!; echo yes > {tidied}; exit 1' INT"
    file = write_plugin(tmp_path, f"{trap}; sleep 600 & echo $$ > {started}; wait")
    async with anyio.create_task_group() as group:
        group.start_soon(connect, file)
        pid = await until(make_awaitable(lambda: started.exists() and started.read_text()), bool)
        group.cancel_scope.cancel()
        os.kill(int(pid), signal.SIGINT)  # as the terminal does
    assert tidied.read_text() == "yes\n"


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal: the end of who sits there, and the end of programs."""
    ours, its = os.openpty()
    yield ours, its
    os.close(ours)
    os.close(its)


def connect_on_terminal(
    terminal: tuple[int, int], file: Path, stdin: int, may_ask: str = "may ask"
) -> tuple[str, str]:
    """Connect with standard error on a terminal; return what was printed and what it shows."""
    ours, its = terminal
    os.write(ours, b"1234\n")
    command = script(CONNECT, str(file), may_ask)
    done = subprocess.run(command, check=True, stdin=stdin, stdout=subprocess.PIPE, stderr=its)
    os.write(its, b"END")
    screen = b""
    while b"END" not in screen:
        screen += os.read(ours, 1 << 16)
    return done.stdout.decode().strip(), screen.decode()


@pytest.mark.parametrize(
    ("mode", "reads"), [({}, True), ({"interactiveMode": "Never"}, False)], ids=["any", "never"]
)
def test_on_a_terminal_a_plugin_may_ask_and_reads_unless_its_mode_is_never(
    tmp_path: Path, terminal: tuple[int, int], mode: dict[str, str], reads: bool
) -> None:
    told = tmp_path / "told"
    file = write_plugin(tmp_path, ASKS.replace("TOLD", str(told)), **mode)
    printed, screen = connect_on_terminal(terminal, file, terminal[1])
    assert "the code: " in screen
    assert printed == ("Bearer 1234" if reads else "Bearer none")
    assert json.loads(told.read_text())["spec"] == {"interactive": reads}


def test_a_plugin_is_not_given_standard_input_that_is_no_terminal(
    tmp_path: Path, terminal: tuple[int, int]
) -> None:
    told = tmp_path / "told"
    with (tmp_path / "piped").open("w+") as piped:
        piped.write("5678\n")
        piped.seek(0)
        file = write_plugin(tmp_path, ASKS.replace("TOLD", str(told)))
        printed, screen = connect_on_terminal(terminal, file, piped.fileno())
    assert "the code: " in screen
    assert printed == "Bearer none"
    assert json.loads(told.read_text())["spec"] == {"interactive": False}


def test_a_plugin_is_run_without_the_terminal_where_it_must_not_ask(
    tmp_path: Path, terminal: tuple[int, int]
) -> None:
    file = write_plugin(tmp_path, ASKS.replace("TOLD", str(tmp_path / "told")))
    printed, screen = connect_on_terminal(
        terminal, file, stdin=terminal[1], may_ask="must not ask"
    )
    assert "the code: " not in screen
    assert printed == "Bearer none"


@pytest.mark.parametrize(
    ("answer", "message_part"),
    [
        ([], "missing key 'apiVersion'"),
        ({"apiVersion": VERSION, "kind": "ExecCredential"}, "missing key 'status'"),
        ({"apiVersion": "v0", "kind": "E", "status": {}}, "api version v0 does not match"),
        ({"apiVersion": VERSION, "kind": "E", "status": "ready"}, "status is not an object"),
    ],
)
async def test_an_answer_that_is_no_credential_of_its_version_says_so(
    tmp_path: Path, answer: Any, message_part: str
) -> None:
    with pytest.raises(ConfigurationError, match=message_part):
        await connect(write_plugin(tmp_path, f"echo '{json.dumps(answer)}'"))


async def test_the_credentials_of_a_plugin_count_and_other_fields_of_the_user_do_not(
    tmp_path: Path,
) -> None:
    nothing = json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": {}})
    described = {"apiVersion": VERSION, "command": "echo", "args": [nothing]}
    user = {"exec": described, "token": "old", "username": "me", "password": "secret"}
    with pytest.raises(ConfigurationError, match="gave neither a token"):
        await connect(write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1", user))
