"""The real LB-IPAM of Cilium's operator, as a child process against any API server.

It gives Services the addresses of CiliumLoadBalancerIPPools, and needs neither agents nor nodes:

    async with ControlPlane.start() as plane:
        await plane.install_crds(await read_lbipam_definitions())
        async with run_cilium_lbipam(plane.get_kubeconfig()) as lbipam:
            ...

The program is `cilium-lbipam`, which `make real` builds from Cilium's own modules. It works while
it has the operator's Lease in kube-system. If it is killed, the next one waits until that Lease
expires, at most 15 seconds.
"""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import yaml

from envtest.keys import write_private_file
from envtest.processes import Child, Children
from envtest.settings import EnvironmentSettings, PlaneError, read_settings

_PRINT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class LbIpam:
    """A running LB-IPAM."""

    _child: Child
    _children: Children

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._child.process.pid

    def read_log(self) -> str:
        """Return the log of the process so far."""
        return self._child.log.read_text(encoding="utf-8", errors="replace")

    async def raise_when_ended(self) -> None:
        """Wait for the end of the process, which is always an error.

        Raises:
            PlaneError: the process ended; the message ends with its last lines.
        """
        await self._children.raise_when_ended(self._child)


def _require_program(settings: EnvironmentSettings) -> Path:
    """Return the path of the program.

    Raises:
        PlaneError: the environment names no program.
    """
    if settings.lbipam is None:
        raise PlaneError(
            "there is no LB-IPAM: put it into KUBEBUILDER_ASSETS as cilium-lbipam, or name it in"
            " TEST_ASSET_CILIUM_LBIPAM"
        )
    return settings.lbipam


@asynccontextmanager
async def run_cilium_lbipam(
    kubeconfig: str, settings: EnvironmentSettings | None = None
) -> AsyncIterator[LbIpam]:
    """Run LB-IPAM for as long as the context lasts; it is killed when this process dies.

    It has no port that reports readiness. When it is ready, the statuses of pools in the API
    server have the numbers of their addresses.

    Args:
        kubeconfig: a self-contained kubeconfig of an administrator of the API server.
        settings: the settings with the path of the program; None for those of the environment.

    Raises:
        PlaneError: there is no such program, or it cannot be run.
    """
    settings = settings or read_settings()
    program = _require_program(settings)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="envtest-lbipam-")))
        write_private_file(folder / "kubeconfig", kubeconfig)
        children = Children(settings, folder, stack)
        arguments = [f"--k8s-kubeconfig-path={folder / 'kubeconfig'}", "--leader-elect"]
        yield LbIpam(children.start(program, arguments), children)


async def read_lbipam_definitions(
    settings: EnvironmentSettings | None = None,
) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinition of pools, which the program prints.

    Args:
        settings: the settings with the path of the program; None for those of the environment.

    Raises:
        PlaneError: there is no such program, it cannot be run, or it fails.
    """
    program = _require_program(settings or read_settings())
    try:
        with anyio.fail_after(_PRINT_SECONDS):
            result = await anyio.run_process([str(program), "--print-crd"], check=False)
    except (OSError, TimeoutError) as error:
        raise PlaneError(f"{program} --print-crd cannot be run: {error}") from error
    if result.returncode:
        complaint = result.stderr.decode(errors="replace").strip()
        raise PlaneError(f"{program} --print-crd ended with {result.returncode}: {complaint}")
    return [yaml.safe_load(result.stdout)]
