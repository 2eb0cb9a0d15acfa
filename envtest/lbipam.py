"""The real LB-IPAM of Cilium's operator, as a child process against any API server.

It gives Services the addresses of CiliumLoadBalancerIPPools, and needs neither agents nor nodes:

    async with ControlPlane.start() as plane:
        await plane.install_crds(await lbipam_definitions())
        async with cilium_lbipam(plane.kubeconfig()) as lbipam:
            ...

The program is `cilium-lbipam`, which `make real` builds of Cilium's own modules. It works while it
holds the operator's Lease in kube-system. After it was killed, the next one waits until that Lease
expires, 15 seconds at most.
"""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import yaml

from envtest.keys import write_private
from envtest.processes import Child, Children
from envtest.settings import EnvironmentSettings, PlaneError, read_settings

_PRINT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class LbIpam:
    """An LB-IPAM that runs."""

    _child: Child
    _children: Children

    @property
    def pid(self) -> int:
        """Return the number of its process."""
        return self._child.process.pid

    def log(self) -> str:
        """Return its log so far."""
        return self._child.log.read_text(encoding="utf-8", errors="replace")

    async def watch(self) -> None:
        """Wait until it ends, which it does not by itself.

        Raises:
            PlaneError: it ended; the message ends with its last lines.
        """
        await self._children.watch(self._child)


def _program(settings: EnvironmentSettings) -> Path:
    if settings.lbipam is None:
        raise PlaneError(
            "there is no LB-IPAM: put it into KUBEBUILDER_ASSETS as cilium-lbipam, or name it in"
            " TEST_ASSET_CILIUM_LBIPAM"
        )
    return settings.lbipam


@asynccontextmanager
async def cilium_lbipam(
    kubeconfig: str, settings: EnvironmentSettings | None = None
) -> AsyncIterator[LbIpam]:
    """Run LB-IPAM for the time of the context; it is killed when this process dies.

    It opens no port that could say whether it is ready. That shows in the API server: it counts
    the addresses of each pool.

    Args:
        kubeconfig: of an administrator of the API server, with everything inline.
        settings: where the program is; the environment's if not given.

    Raises:
        PlaneError: there is no such program, or it cannot be run.
    """
    settings = settings or read_settings()
    program = _program(settings)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="envtest-lbipam-")))
        write_private(folder / "kubeconfig", kubeconfig)
        children = Children(settings, folder, stack)
        arguments = [f"--k8s-kubeconfig-path={folder / 'kubeconfig'}", "--leader-elect"]
        yield LbIpam(children.start(program, arguments), children)


async def lbipam_definitions(settings: EnvironmentSettings | None = None) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinition of pools, as the program itself has it.

    Args:
        settings: where the program is; the environment's if not given.

    Raises:
        PlaneError: there is no such program, it cannot be run, or prints no definition.
    """
    program = _program(settings or read_settings())
    try:
        with anyio.fail_after(_PRINT_SECONDS):
            printed = await anyio.run_process([str(program), "--print-crd"], check=False)
    except (OSError, TimeoutError) as error:
        raise PlaneError(f"{program} --print-crd cannot be run: {error}") from error
    if printed.returncode:
        complaint = printed.stderr.decode(errors="replace").strip()
        raise PlaneError(f"{program} --print-crd ended with {printed.returncode}: {complaint}")
    return [yaml.safe_load(printed.stdout)]
