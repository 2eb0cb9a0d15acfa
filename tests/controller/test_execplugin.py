"""Exec plugins of kubeconfigs: questions on a terminal, and their end with the process."""

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
ASKING_SCRIPT = f"""
printf 'the code: ' >&2
read code || code=none
echo '{{"apiVersion": "{VERSION}", "kind": "ExecCredential", "status": {{"token": "'$code'"}}}}'
echo "$KUBERNETES_EXEC_INFO" > INFO_FILE
"""
"""A plugin that asks for a code and returns it as token, or `none` if it cannot read."""
CONNECTING_PROGRAM = """
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


def write_plugin(folder: Path, content: str, **fields: str) -> Path:
    """Write a kubeconfig whose user has a shell script as exec plugin; return its path."""
    plugin = {"apiVersion": VERSION, "command": "sh", "args": ["-c", content], **fields}
    return write_kubeconfig(folder / "kubeconfig", "https://127.0.0.1:1", {"exec": plugin})


def write_waiting_plugin(folder: Path, before: str = "") -> tuple[Path, Path]:
    """Return a kubeconfig whose plugin waits, and the file to which it writes its process id."""
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


@pytest.mark.parametrize("before", ["", "trap '' INT TERM;"], ids=["plain", "ignores signals"])
async def test_a_waiting_plugin_is_ended_when_its_caller_is_cancelled_even_if_it_ignores_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    monkeypatch.setattr(execplugin, "ENDING_SECONDS", 0.01)
    file, started = write_waiting_plugin(tmp_path, before)
    async with anyio.create_task_group() as group:
        group.start_soon(connect, file)
        await until(make_awaitable(started.exists), bool)
        group.cancel_scope.cancel()
    assert not is_running(int(started.read_text()))


async def test_a_plugin_can_clean_up_when_its_caller_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execplugin, "ENDING_SECONDS", 600.0)
    started, cleaned_up = tmp_path / "started", tmp_path / "cleaned-up"
    trap = f"trap 'kill $!; echo yes > {cleaned_up}; exit 1' INT"
    file = write_plugin(tmp_path, f"{trap}; sleep 600 & echo $$ > {started}; wait")
    async with anyio.create_task_group() as group:
        group.start_soon(connect, file)
        pid = await until(make_awaitable(lambda: started.exists() and started.read_text()), bool)
        group.cancel_scope.cancel()
        os.kill(int(pid), signal.SIGINT)  # as the terminal does
    assert cleaned_up.read_text() == "yes\n"


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Yield the file descriptors of a terminal: the end of its user, and the end of programs."""
    user_end, program_end = os.openpty()
    yield user_end, program_end
    os.close(user_end)
    os.close(program_end)


def connect_on_terminal(
    terminal: tuple[int, int], file: Path, stdin: int, may_ask: str = "may ask"
) -> tuple[str, str]:
    """Run CONNECTING_PROGRAM on a terminal whose user has typed 1234.

    Returns:
        What the program printed: the authorization; and what the terminal showed.
    """
    user_end, program_end = terminal
    os.write(user_end, b"1234\n")
    command = script(CONNECTING_PROGRAM, str(file), may_ask)
    result = subprocess.run(
        command, check=True, stdin=stdin, stdout=subprocess.PIPE, stderr=program_end
    )
    os.write(program_end, b"END")
    screen = b""
    while b"END" not in screen:
        screen += os.read(user_end, 1 << 16)
    return result.stdout.decode().strip(), screen.decode()


@pytest.mark.parametrize(
    ("mode", "may_read"), [({}, True), ({"interactiveMode": "Never"}, False)], ids=["any", "never"]
)
def test_on_a_terminal_a_plugin_shows_its_question_and_reads_the_answer_unless_its_mode_is_never(
    tmp_path: Path, terminal: tuple[int, int], mode: dict[str, str], may_read: bool
) -> None:
    info_file = tmp_path / "info"
    file = write_plugin(tmp_path, ASKING_SCRIPT.replace("INFO_FILE", str(info_file)), **mode)
    printed, screen = connect_on_terminal(terminal, file, terminal[1])
    assert "the code: " in screen
    assert printed == ("Bearer 1234" if may_read else "Bearer none")
    assert json.loads(info_file.read_text())["spec"] == {"interactive": may_read}


def test_a_plugin_is_not_given_standard_input_that_is_no_terminal(
    tmp_path: Path, terminal: tuple[int, int]
) -> None:
    info_file = tmp_path / "info"
    with (tmp_path / "piped").open("w+") as piped:
        piped.write("5678\n")
        piped.seek(0)
        file = write_plugin(tmp_path, ASKING_SCRIPT.replace("INFO_FILE", str(info_file)))
        printed, screen = connect_on_terminal(terminal, file, piped.fileno())
    assert "the code: " in screen
    assert printed == "Bearer none"
    assert json.loads(info_file.read_text())["spec"] == {"interactive": False}


def test_a_plugin_that_must_not_ask_is_run_without_the_terminal(
    tmp_path: Path, terminal: tuple[int, int]
) -> None:
    file = write_plugin(tmp_path, ASKING_SCRIPT.replace("INFO_FILE", str(tmp_path / "info")))
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
async def test_the_error_says_why_the_output_of_a_plugin_is_no_credential(
    tmp_path: Path, answer: Any, message_part: str
) -> None:
    with pytest.raises(ConfigurationError, match=message_part):
        await connect(write_plugin(tmp_path, f"echo '{json.dumps(answer)}'"))


async def test_other_credentials_of_a_user_with_a_plugin_are_ignored(
    tmp_path: Path,
) -> None:
    empty_credential = json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": {}})
    plugin = {"apiVersion": VERSION, "command": "echo", "args": [empty_credential]}
    user = {"exec": plugin, "token": "old", "username": "me", "password": "secret"}
    with pytest.raises(ConfigurationError, match="gave neither a token"):
        await connect(write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1", user))
