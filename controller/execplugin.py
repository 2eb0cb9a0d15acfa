"""Runs the credential plugin of a kubeconfig's user (`exec`), connected as kubectl connects it.

kubernetes_asyncio has code for this, too. But that code hides what a plugin asks on the terminal.
When the caller is cancelled, by Ctrl-C for example, it leaves the plugin running and its pipes
open.
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
"""How long a plugin may take to end after its caller was cancelled, before it is killed. Ctrl-C
reaches the plugin, too, which may have to switch the terminal's echo on again."""

ANSWER_SECONDS = 60.0
"""How long a plugin may run that does not read from the terminal, before it is ended."""

_STDIN, _STDOUT, _STDERR = range(3)


async def run_plugin(
    command: Sequence[str],
    environment: Mapping[str, str],
    exec_fields: Mapping[str, Any],
    *,
    may_ask: bool,
) -> dict[str, str]:
    """Run a plugin; return its `token`, or `clientCertificateData` and `clientKeyData`, if any.

    The plugin's standard error is shown if ours is a terminal; otherwise it becomes part of the
    error if the plugin fails. The plugin may read from standard input if that is a terminal,
    unless its interactiveMode is Never. A plugin that may not read has ANSWER_SECONDS to end.

    Args:
        command: the program and its arguments.
        environment: the plugin's variables, without KUBERNETES_EXEC_INFO.
        exec_fields: the field `exec` of the kubeconfig's user.
        may_ask: whether the plugin may use the terminal; if not, it runs as without a terminal.

    Raises:
        ConfigurationError: the plugin failed or runs for too long, or its answer is no
            ExecCredential of its apiVersion.
        OSError: the plugin cannot be started.
    """
    version = exec_fields["apiVersion"]
    may_read = may_ask and exec_fields.get("interactiveMode") != "Never" and os.isatty(_STDIN)
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": may_read}}
    variables = {**environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    stdin = None if may_read else DEVNULL
    stderr = None if may_ask and os.isatty(_STDERR) else PIPE
    try:
        with anyio.fail_after(None if may_read else ANSWER_SECONDS):  # a person may take longer
            code, output, error_output = await _run_program(
                command, variables, stdin=stdin, stderr=stderr
            )
    except TimeoutError as error:
        raise ConfigurationError(
            f"exec: {command[0]} has not answered within {ANSWER_SECONDS:g} s and was ended; run"
            " it by hand to see what it waits for"
        ) from error
    if code != 0:
        detail = error_output.decode(errors="replace").strip()
        raise ConfigurationError(f"exec: process returned {code}{f'. {detail}' if detail else ''}")
    return _read_credentials(output, version)


async def _run_program(
    command: Sequence[str], environment: Mapping[str, str], stdin: int | None, stderr: int | None
) -> tuple[int | None, bytes, bytes]:
    """Run a program to its end; return its exit code, standard output and standard error.

    A cancelled call, too, returns only after the program has ended.
    """
    # If the start were cancelled, the program might run and nothing would wait for its end.
    with anyio.CancelScope(shield=True):
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
            transport.close()  # kills the program if it still runs
            await process.ended.wait()


class _Process(asyncio.SubprocessProtocol):
    """Collects a program's output; sets `exited` at its exit, `ended` once its pipes close."""

    def __init__(self) -> None:
        self.out, self.err = bytearray(), bytearray()
        self.exited, self.ended = anyio.Event(), anyio.Event()

    @override
    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Collect a part of the output."""
        (self.out if fd == _STDOUT else self.err).extend(data)

    @override
    def process_exited(self) -> None:
        """Note that the program has exited; a child of it may hold the pipes open."""
        self.exited.set()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the program has exited and all its pipes are closed."""
        self.ended.set()


def _read_credentials(output: bytes, version: object) -> dict[str, str]:
    """Return the credentials in a plugin's answer; empty if it has neither token nor certificate.

    If the answer has a token, its certificate is left out. A certificate counts only with its key.

    Raises:
        ConfigurationError: the answer is no ExecCredential of the apiVersion `version`.
    """
    try:
        answer = json.loads(output)
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
