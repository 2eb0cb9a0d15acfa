"""Cilium's operator as a child process: a program with LB-IPAM alone, or the whole operator."""

import os
import signal
import subprocess
from math import inf
from pathlib import Path

from envtest.ports import choose_free_port
from envtest.settings import read_settings
from tests.freezing import freeze, thaw
from tests.polling import make_awaitable, until
from tests.servers import ASSETS

LEASE_NAMESPACE = "kube-system"
"""The namespace of the operator's Lease; LB-IPAM alone has no flag for it."""
LBIPAM_ONLY_FLAGS = (
    *("--enable-gops=false", "--enable-metrics=false", "--ipam=kubernetes"),
    *("--unmanaged-pod-watcher-interval=0", "--remove-cilium-node-taints=false"),
    "--set-cilium-is-up-condition=false",
)
"""Flags that switch off all parts of a whole operator but LB-IPAM."""


def find_newest() -> Path | None:
    """Return the newest LB-IPAM that the environment names; None if there is none."""
    return read_settings().lbipam


def find_oldest() -> Path | None:
    """Return the operator of the oldest Cilium, in `oldest` beside KUBEBUILDER_ASSETS, or None."""
    asked = os.environ.get(ASSETS)
    program = Path(asked or os.devnull).parent / "oldest" / "cilium-operator"
    return program if asked and program.is_file() else None


def is_whole_operator(program: Path) -> bool:
    """Return whether a program is a whole operator, and not LB-IPAM alone."""
    return program.name == "cilium-operator"


class Operator:
    """LB-IPAM as a child process.

    Args:
        program: LB-IPAM alone, or a whole operator.
        kubeconfig: of the tenant.
        log: the file for its output.
        elects: work only while holding the Lease; a whole operator always does.
        defines_kinds: let a whole operator install its CRDs, which takes ten seconds.
    """

    def __init__(
        self,
        program: Path,
        kubeconfig: Path,
        log: Path,
        *,
        elects: bool = False,
        defines_kinds: bool = False,
    ) -> None:
        self._command = [str(program), f"--k8s-kubeconfig-path={kubeconfig}"]
        self.is_whole = is_whole_operator(program)
        """Whether it is a whole operator, which can define its kinds by itself."""
        if self.is_whole:
            api = f"--operator-api-serve-addr=127.0.0.1:{choose_free_port('127.0.0.1')}"
            self._command += [api, *LBIPAM_ONLY_FLAGS, f"--k8s-namespace={LEASE_NAMESPACE}"]
            self._command.append(f"--skip-crd-creation={str(not defines_kinds).lower()}")
        elif elects:
            self._command.append("--leader-elect")
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    def start(self) -> None:
        """Start the operator; it is ready once it has acknowledged a pool."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """Send SIGKILL to the operator, also if it is frozen or has ended."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Send SIGTERM and wait for the end of the operator, which releases its Lease."""
        assert self._process is not None, "it does not run"
        self._process.terminate()
        self._process.wait()
        self._process = None

    async def wait(self) -> None:
        """Wait until the operator has ended."""
        process = self._process
        if process is not None:
            await until(make_awaitable(process.poll), lambda code: code is not None, seconds=inf)

    def freeze(self) -> None:
        """Freeze the operator."""
        freeze(self.pid)

    def thaw(self) -> None:
        """Let a frozen operator go on."""
        thaw(self.pid)
