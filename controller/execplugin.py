"""Runs the credential plugin of a kubeconfig's user (`exec`), connected as kubectl connects it.

kubernetes_asyncio has code for this, too. But it hides what a plugin asks on the terminal, and
when the caller is cancelled, by Ctrl-C say, it leaves the plugin running and its pipes open.
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from subprocess import DEVNULL, PIPE
from typing import Any

import anyio
from typing_extensions import override

from controller.errors import ConfigurationError

ENDING_SECONDS = 1.0
"""How long a plugin may take to end after its caller was cancelled, before it is killed: Ctrl-C
reaches it, too, and it may have to switch the terminal's echo on again."""

ANSWER_SECONDS = 60.0
"""How long a plugin may run that asks nobody, before it is ended."""

_STDIN, _STDOUT, _STDERR = range(3)


async def run_plugin(
    command: Sequence[str],
    environment: Mapping[str, str],
    described: Mapping[str, Any],
    *,
    may_ask: bool,
) -> dict[str, str]:
    """Run a plugin; return its `token`, or `clientCertificateData` and `clientKeyData`, if any.

    What it writes to standard error is shown where that is a terminal, and else part of the error
    if it fails. It may read from standard input where that is a terminal, unless its
    interactiveMode is Never. A plugin that may not is ended when it runs for ANSWER_SECONDS.

    Args:
        command: the program and its arguments.
        environment: its variables, without KUBERNETES_EXEC_INFO.
        described: the user's `exec`.
        may_ask: whether it may use the terminal; if not, it is run as where there is none.

    Raises:
        ConfigurationError: it failed or runs for too long, or its answer is no ExecCredential of
            its apiVersion.
        OSError: it cannot be started.
    """
    version = described["apiVersion"]
    reads = may_ask and described.get("interactiveMode") != "Never" and os.isatty(_STDIN)
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": reads}}
    variables = {**environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    stdin, stderr = None if reads else DEVNULL, None if may_ask and os.isatty(_STDERR) else PIPE
    try:
        with anyio.fail_after(None if reads else ANSWER_SECONDS):
            code, printed, said = await _run(command, variables, stdin=stdin, stderr=stderr)
    except TimeoutError as error:
        raise ConfigurationError(
            f"exec: {command[0]} has not answered within {ANSWER_SECONDS:g} s and was ended; run"
            " it by hand to see what it waits for"
        ) from error
    if code != 0:
        detail = said.decode(errors="replace").strip()
        raise ConfigurationError(f"exec: process returned {code}{f'. {detail}' if detail else ''}")
    return _read_credentials(printed, version)


async def _run(
    command: Sequence[str], environment: Mapping[str, str], stdin: int | None, stderr: int | None
) -> tuple[int | None, bytes, bytes]:
    """Return the exit code of a program and what it wrote; it has ended, also if cancelled."""
    with anyio.CancelScope(shield=True):  # cancelled in between, asyncio would leave it unwaited
        transport, process = await asyncio.get_running_loop().subprocess_exec(
            _Process, *command, env=environment, stdin=stdin, stdout=PIPE, stderr=stderr
        )
    try:
        await process.ended.wait()
        return transport.get_returncode(), bytes(process.out), bytes(process.err)
    finally:
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(ENDING_SECONDS):
                await process.exited.wait()
            transport.close()  # kills it if it still runs
            await process.ended.wait()


class _Process(asyncio.SubprocessProtocol):
    """Gathers what a program writes, and notes when it has exited."""

    def __init__(self) -> None:
        self.out, self.err = bytearray(), bytearray()
        self.exited, self.ended = anyio.Event(), anyio.Event()

    @override
    def pipe_data_received(self, fd: int, data: bytes) -> None:
        (self.out if fd == _STDOUT else self.err).extend(data)

    @override
    def process_exited(self) -> None:
        self.exited.set()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()  # it has exited, and all its pipes are closed


def _read_credentials(printed: bytes, version: object) -> dict[str, str]:
    """Return the credentials in a plugin's answer; raise ConfigurationError if it is wrong."""
    try:
        answer = json.loads(printed)
    except ValueError as error:
        raise ConfigurationError(f"exec: failed to decode process output: {error}") from error
    for key in ("apiVersion", "kind", "status"):
        if not isinstance(answer, dict) or key not in answer:
            raise ConfigurationError(f"exec: malformed response. missing key '{key}'")
    if answer["apiVersion"] != version:
        raise ConfigurationError(
            f"exec: plugin api version {answer['apiVersion']} does not match {version}"
        )
    status = answer["status"]
    if not isinstance(status, dict):
        raise ConfigurationError("exec: malformed response. status is not an object")
    names = ("token",) if status.get("token") else ("clientCertificateData", "clientKeyData")
    credentials = {name: str(status[name]) for name in names if status.get(name)}
    return credentials if len(credentials) == len(names) else {}
