"""The real MetalLB: its controller as a child process against any API server.

The controller assigns addresses to Services; it needs neither speakers nor a cluster's network.
Before it starts, its API server has to serve every kind that it watches (`definitions`) and to
have the namespace metallb-system:

    async with ControlPlane.start() as plane:
        await plane.install_crds(definitions(read_settings()))
        ...                         # create the namespace metallb-system
        async with metallb_controller(plane.kubeconfig()) as metallb:
            print(metallb.version)

From 0.16 on the controller reads its own Pod and serves its metrics over TLS to those whom its API
server knows: what it needs for that is created where it is started (`metallbaccess.py`).

Its admission webhooks are switched off: they are reached through a Service of the cluster, which
leads nowhere on one machine. So an IPAddressPool that MetalLB cannot use is stored all the same;
MetalLB then keeps the last configuration that it could use.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio
from aiohttp import ClientError, ClientSession, TCPConnector
from anyio import to_thread

from envtest.keys import write_private
from envtest.listening import EVERYWHERE
from envtest.metallbaccess import POD, admit_metallb
from envtest.plane import read_crds
from envtest.ports import free_port
from envtest.processes import Child, Children, PortTakenError
from envtest.settings import EnvironmentSettings, PlaneError, read_settings

NAMESPACE = "metallb-system"
"""Where it looks for its kinds."""

_GROUP = "metallb.io"
_TRIES = 5
_USAGE_SECONDS = 30.0
_HEALTH_PORT = "health-probe-port"
"""The flag by which a controller that serves its metrics over TLS is told from an older one."""
_STARTED = re.compile(r"MetalLB controller starting version (\S+)")
# Counted for each look at the pools: from the first one on, its caches are filled.
_HAS_LOOKED = re.compile(r"^metallb_k8s_client_updates_total [1-9]", re.MULTILINE)
# All kinds that some release of the controller watches, and the versions that are served; the last
# one is stored.
_KINDS = (
    ("BFDProfile", "bfdprofiles", "v1beta1"),
    ("BGPAdvertisement", "bgpadvertisements", "v1beta1"),
    ("BGPPeer", "bgppeers", "v1beta1", "v1beta2"),
    ("Community", "communities", "v1beta1"),
    ("ConfigurationState", "configurationstates", "v1beta1"),
    ("IPAddressPool", "ipaddresspools", "v1beta1"),
    ("L2Advertisement", "l2advertisements", "v1beta1"),
    ("ServiceBGPStatus", "servicebgpstatuses", "v1beta1"),
    ("ServiceL2Status", "servicel2statuses", "v1beta1"),
)


@dataclass(frozen=True, slots=True)
class MetalLB:
    """A MetalLB controller that runs.

    Attributes:
        version: what it calls itself in its log, `0.15.3` say; empty if it does not.
        url: where it serves metrics.
    """

    version: str
    url: str
    _token: str
    _child: Child
    _children: Children

    @property
    def pid(self) -> int:
        """Return the number of its process."""
        return self._child.process.pid

    async def metrics(self) -> str:
        """Return its metrics as Prometheus reads them.

        Raises:
            PlaneError: it does not answer.
        """
        try:
            async with (
                _metrics_session(self.url, self._token) as session,
                session.get("/metrics") as answer,
            ):
                metrics = await answer.text()
        except ClientError as error:
            raise PlaneError(f"MetalLB's controller gives no metrics: {error}") from error
        if answer.status != 200:
            raise PlaneError(
                f"MetalLB's controller gives no metrics: it answers {metrics.strip()!r}"
            )
        return metrics

    def log(self) -> str:
        """Return the controller's log so far."""
        return _read_log(self._child.log)

    async def watch(self) -> None:
        """Wait until it ends, which it does not by itself.

        Raises:
            PlaneError: it ended; the message ends with its last lines.
        """
        await self._children.watch(self._child)


@asynccontextmanager
async def metallb_controller(
    kubeconfig: str, settings: EnvironmentSettings | None = None
) -> AsyncIterator[MetalLB]:
    """Run MetalLB's controller for the time of the context; it is ready when this yields.

    Ready means that it has read the pools that are there. It is killed when this process dies.

    Args:
        kubeconfig: of an administrator of the API server, with everything inline.
        settings: where the program is, and how long to wait; the environment's if not given.

    Raises:
        PlaneError: there is no such program, it cannot be run, ended or is not ready in time
            (the message ends with its last lines), or the API server refuses what it needs.
    """
    settings = settings or read_settings()
    if settings.metallb is None:
        raise PlaneError(
            "there is no MetalLB controller: put it into KUBEBUILDER_ASSETS as"
            " metallb-controller, or name it in TEST_ASSET_METALLB_CONTROLLER"
        )
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="envtest-metallb-")))
        write_private(folder / "kubeconfig", kubeconfig)
        changed = settings.metallb.stat().st_mtime_ns
        flags = await to_thread.run_sync(_read_flags, settings.metallb, changed)
        token = await admit_metallb(kubeconfig, NAMESPACE) if _HEALTH_PORT in flags else ""
        yield await _start_somewhere(
            stack, settings, program=settings.metallb, folder=folder, token=token
        )


async def _start_somewhere(
    stack: AsyncExitStack, settings: EnvironmentSettings, program: Path, folder: Path, token: str
) -> MetalLB:
    """Start it; a free port may be taken between asking and listening, so try again."""
    tries = _TRIES
    while True:
        tries -= 1
        async with AsyncExitStack() as trial:
            children = Children(settings, folder, trial)
            try:
                started = await _start(
                    children, program, kubeconfig=folder / "kubeconfig", token=token
                )
            except PortTakenError as error:
                if not tries:
                    raise PlaneError(str(error)) from error
                continue
            stack.push_async_exit(trial.pop_all())
            return started


async def _start(children: Children, program: Path, kubeconfig: Path, token: str) -> MetalLB:
    """Start it on a free port and wait until it is ready.

    Args:
        children: starts it.
        program: the controller.
        kubeconfig: of the administrator.
        token: for its metrics; empty for an older one, whose metrics anyone can read.
    """
    # It listens on every address of this machine, and has no flag for another one.
    port = free_port(EVERYWHERE[0])
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "METALLB_NAMESPACE": NAMESPACE,
        "METALLB_BGP_TYPE": "native",
        "METALLB_POD_NAME": POD,
        "METALLB_DEPLOYMENT": "controller",
    }
    arguments = [f"--port={port}", "--log-level=info", "--webhook-mode=disabled"]
    if token:
        # The usual one would be taken by the second controller of this machine.
        arguments.append(f"--{_HEALTH_PORT}=0")
    child = children.start(program, arguments, environment)
    url = f"{'https' if token else 'http'}://127.0.0.1:{port}"
    async with _metrics_session(url, token) as session:
        await children.ready(child, session, path="/metrics", content=_HAS_LOOKED)
    said = _STARTED.search(await anyio.Path(child.log).read_text(errors="replace"))
    return MetalLB(said[1] if said else "", url, _token=token, _child=child, _children=children)


def _metrics_session(url: str, token: str) -> ClientSession:
    """Return a way to the metrics; over TLS the controller shows a certificate that it signed."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return ClientSession(url, headers=headers, connector=TCPConnector(ssl=False))


@lru_cache(maxsize=16)
def _read_flags(program: Path, changed: int) -> str:  # noqa: ARG001 - part of what is kept
    """Return a controller's help about its flags; empty if it cannot be run, or takes too long.

    Args:
        program: the controller.
        changed: when it was last changed, so that another one of the same name is asked anew.
    """
    try:
        asked = subprocess.run(  # noqa: S603
            [program, "-h"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_USAGE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # starting it says why
    return asked.stdout.decode(errors="replace")


def _read_log(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def definitions(settings: EnvironmentSettings) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of all kinds that the controller watches.

    They are MetalLB's own where the folder `metallb-crds` is next to the program; else short
    ones, which let everything pass.

    Raises:
        PlaneError: a file in that folder cannot be read.
    """
    if settings.metallb is not None:
        folder = settings.metallb.with_name("metallb-crds")
        if folder.is_dir():
            return read_crds(folder)
    return [_definition(kind, plural, versions) for kind, plural, *versions in _KINDS]


def _definition(kind: str, plural: str, versions: Sequence[str]) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    # Where it is not said, a pool is for all: the controller relies on the API server for that.
    automatic = {"autoAssign": {"type": "boolean", "default": True}}
    spec = {**anything, "properties": automatic} if kind == "IPAddressPool" else anything
    schema = {"type": "object", "properties": {"spec": spec, "status": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[-1],
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
                for version in versions
            ],
        },
    }
