"""Starts `python -m reconcilers` as a fork of a process that has imported all of it.

Tests start the program some three hundred times, and each start spends half a second or more of
CPU time on imports. Here one process per test worker imports once; each start is then a fork of
it, with the arguments, environment, folder and file descriptors that the test asked for, and it
runs `reconcilers/__main__.py` to the end of the interpreter as ever. It is a child of the test's
own process (CLONE_PARENT): signals, kill -9, exit codes, sessions and waiting are the real ones,
and so is all that it starts itself. Tests do not see a difference: whatever hands
[sys.executable, "-m", "reconcilers", ...] to subprocess gets a fork. The same goes for programs of
the tests' own (tests/program.py) and the benchmarks' API server.

What this does not test: that a command imports what it uses, in an order that works; how it
behaves while it still imports; the way in from the installed script; what /proc shows as the
command line; limits, the umask and ignored signals that a test set for its children. Each command
is therefore also started as it is installed (tests/reconcilers/cli/test_installed.py).

A start that asks for more than is handed over here, or that sets variables that only a new
interpreter reads, is a start of its own. So is each one where the system is not Linux.
"""

import atexit
import ctypes
import functools
import gc
import importlib
import inspect
import json
import os
import pkgutil
import platform
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGES = ("allocator", "controller", "envtest", "manifests", "reconcilers")
MODULES = ("reconcilers", "tests.bench.envtest_server", "tests.program")
"""What is started as forks."""
CLONE_PARENT = 0x8000
CLONE = {"x86_64": 56, "aarch64": 220}
"""The number of the system call, by machine."""
AT_START = ("PYTHON", "SSL_", "LC_", "LANG", "LD_", "MALLOC_", "TZ", "OPENSSL_", "VIRTUAL_ENV")
"""How variables begin that are read by a new interpreter, or by a module that is imported."""
NOT_HANDED_OVER: Mapping[str, object] = {
    "executable": None, "preexec_fn": None, "close_fds": True, "pass_fds": (), "shell": False,
    "restore_signals": True, "gid": None, "gids": None, "uid": None, "umask": -1,
    "process_group": -1,
}  # fmt: skip
"""Arguments of a start that it has to leave as they are, to be a fork."""
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_LONGEST = 1 << 17

_server: "Server | None" = None
_environment: dict[str, str] = {}
"""That of the server: as it was before any test changed it."""
_execute = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_signature = inspect.signature(_execute)


class Server:
    """The process that starts are forks of, from the side of the tests."""

    def __init__(self) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._connection = ours
            self._turn = threading.Lock()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forkserver", str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                env=_environment,
                cwd=ROOT,  # the folder that a test works in may have packages of our names
            )
        self.pid = self._process.pid

    def fork(self, request: Mapping[str, object], files: Sequence[int]) -> int:
        """Start the program; return the id of its process, which is a child of this one.

        Args:
            request: its module, arguments, environment and folder, and whether its session is new.
            files: what its standard input, output and error are to be.
        """
        with self._turn:
            socket.send_fds(self._connection, [json.dumps(request).encode()], files)
            return int(self._connection.recv(64))

    def close(self) -> None:
        """End it; what was started stays."""
        self._connection.close()
        self._process.wait()


def install() -> None:
    """Have the program started as forks from now on, where the system can."""
    if sys.platform == "linux" and platform.machine() in CLONE:
        _environment.update(os.environ)
        subprocess.Popen._execute_child = _start  # type: ignore[attr-defined]
        atexit.register(uninstall)


def uninstall() -> None:
    """Have the program started as ever, and end the process that starts were forks of."""
    global _server  # noqa: PLW0603 - one for each process
    subprocess.Popen._execute_child = _execute  # type: ignore[attr-defined]
    atexit.unregister(uninstall)
    if _server is not None:
        _server.close()
        _server = None


def processes() -> set[int]:
    """Return the process that starts are forks of, if there is one: no test has left it behind."""
    return {_server.pid} if _server is not None else set()


@functools.wraps(_execute)
def _start(popen: Any, *args: Any, **kwargs: Any) -> None:
    """Start the process of a Popen: as a fork of the server where that is the same."""
    global _server  # noqa: PLW0603 - as above
    asked = _signature.bind(popen, *args, **kwargs).arguments
    environment = os.environ if asked["env"] is None else asked["env"]
    command = [] if isinstance(asked["args"], str | bytes | os.PathLike) else list(asked["args"])
    if (
        command[:2] != [sys.executable, "-m"]
        or command[2] not in MODULES
        or any(asked.get(name, usual) != usual for name, usual in NOT_HANDED_OVER.items())
        or _read_at_start(environment) != _read_at_start(_environment)
    ):
        _execute(popen, *args, **kwargs)
        return
    if _server is None:
        _server = Server()
    pipes = [asked[name] for name in PIPES]
    its = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
    files = [
        number if given_number == -1 else given_number for number, given_number in enumerate(its)
    ]
    request = {
        "module": command[2],
        "arguments": command[3:],
        "environment": dict(environment),
        "folder": os.path.abspath(asked["cwd"] or os.curdir),
        "session": asked["start_new_session"],
    }
    popen.pid = _server.fork(request, files)
    popen._child_created = True
    popen._close_pipe_fds(*pipes)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a fork could not act on, without the way to the packages."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(AT_START) and name != "PYTHONPATH"
    }


def _clone() -> int:
    """Fork as os.fork does, but make the child a sibling of this process; return 0 in it."""
    call = ctypes.PyDLL(None, use_errno=True)
    flags = ctypes.c_long(CLONE_PARENT | signal.SIGCHLD)
    call.PyOS_BeforeFork()
    child: int = call.syscall(ctypes.c_long(CLONE[platform.machine()]), flags, *[None] * 4)
    (call.PyOS_AfterFork_Parent if child else call.PyOS_AfterFork_Child)()
    if child < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return child


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; return it in the child, and None when the tests have ended."""
    while True:
        message, files, _, _ = socket.recv_fds(connection, _LONGEST, 3)
        if not message:
            return None
        child = _clone()
        if not child:
            for number, file in enumerate(files):
                os.dup2(file, number)
        for file in files:
            os.close(file)
        if not child:
            request: dict[str, Any] = json.loads(message)
            return request
        connection.send(str(child).encode())


def _import_all() -> None:
    """Import the program's packages, and what only some of their functions import."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def _judge_definitions() -> None:
    """Have our definitions made and judged, as half of the program's starts begin with that."""
    from envtest.schema.crd.definition import set_crd_defaults, validate_crd
    from reconcilers.api import crd

    for definition in crd.build_crds():
        set_crd_defaults(definition)
        validate_crd(definition)


def _become(request: Mapping[str, Any]) -> None:
    """Run the program as a new interpreter would with what was asked for."""
    if request["session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    sys.path[0] = request["folder"]
    if not os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


def main() -> None:
    """Serve on the file descriptor that is the first argument; a fork then becomes the program."""
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started this
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _import_all()
        _judge_definitions()
        gc.collect()
        gc.freeze()  # so that a collection in a fork does not copy what was imported
        request = _serve(connection)
    if request is not None:
        signal.signal(signal.SIGINT, interrupt)
        _become(request)


if __name__ == "__main__":
    main()
