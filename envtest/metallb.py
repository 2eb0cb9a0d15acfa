"""The real MetalLB: its controller as a child process against any API server.

The controller assigns addresses to Services; it needs neither speakers nor a cluster's network.
Before it starts, its API server has to serve every kind that it watches, and to have the namespace
metallb-system. `read_metallb_definitions` returns the definitions of these kinds:

    async with ControlPlane.start() as plane:
        await plane.install_crds(read_metallb_definitions(read_settings()))
        ...                         # create the namespace metallb-system
        async with run_metallb_controller(plane.get_kubeconfig()) as metallb:
            print(metallb.version)

Since 0.16 the controller reads its own Pod, and serves its metrics over TLS to users that its API
server authenticates. `metallbaccess.py` creates the objects that it needs for that.

Its admission webhooks are switched off, because the API server would call them through a Service,
which has no endpoint here. So an IPAddressPool that MetalLB cannot use is stored nevertheless, and
MetalLB keeps its last valid configuration.
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

from envtest.keys import write_private_file
from envtest.listening import EVERYWHERE
from envtest.metallbaccess import POD, create_metallb_access
from envtest.plane import read_crds
from envtest.ports import choose_free_port
from envtest.processes import Child, Children, PortTakenError
from envtest.settings import EnvironmentSettings, PlaneError, read_settings

NAMESPACE = "metallb-system"
"""The namespace of MetalLB's objects."""

_GROUP = "metallb.io"
_MAX_ATTEMPTS = 5
_USAGE_SECONDS = 30.0
_HEALTH_PORT = "health-probe-port"
"""A flag of controllers that serve their metrics over TLS (since 0.16)."""
_STARTED = re.compile(r"MetalLB controller starting version (\S+)")
# The controller counts its reads of the pools. After the first one, its caches are filled.
_HAS_READ_POOLS = re.compile(r"^metallb_k8s_client_updates_total [1-9]", re.MULTILINE)
# All kinds that any release of the controller watches: kind, plural and served versions, of which
# the last one is stored.
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
    """A running MetalLB controller.

    Attributes:
        version: its version according to its log, such as `0.15.3`; empty if the log has none.
        url: the URL of its metrics.
    """

    version: str
    url: str
    _token: str
    _child: Child
    _children: Children

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._child.process.pid

    async def read_metrics(self) -> str:
        """Return its metrics in the text format of Prometheus.

        Raises:
            PlaneError: the controller does not answer, or answers with an error.
        """
        try:
            async with (
                _create_metrics_session(self.url, self._token) as session,
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

    def read_log(self) -> str:
        """Return the controller's log so far."""
        return _read_log(self._child.log)

    async def raise_when_ended(self) -> None:
        """Wait for the end of the process, which is always an error.

        Raises:
            PlaneError: the process ended; the message ends with its last lines.
        """
        await self._children.raise_when_ended(self._child)


@asynccontextmanager
async def run_metallb_controller(
    kubeconfig: str, settings: EnvironmentSettings | None = None
) -> AsyncIterator[MetalLB]:
    """Run MetalLB's controller for as long as the context lasts; yield once it is ready.

    It is ready once it has read the pools. It is killed when this process dies.

    Args:
        kubeconfig: a self-contained kubeconfig of an administrator of the API server.
        settings: the settings with the path of the program and the time to wait; None for those of
            the environment.

    Raises:
        PlaneError: there is no such program, it cannot be run, ended or is not ready in time
            (the message ends with its last lines), or the API server rejects an object it needs.
    """
    settings = settings or read_settings()
    if settings.metallb is None:
        raise PlaneError(
            "there is no MetalLB controller: put it into KUBEBUILDER_ASSETS as"
            " metallb-controller, or name it in TEST_ASSET_METALLB_CONTROLLER"
        )
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="envtest-metallb-")))
        write_private_file(folder / "kubeconfig", kubeconfig)
        modified = settings.metallb.stat().st_mtime_ns
        flags = await to_thread.run_sync(_read_flags, settings.metallb, modified)
        token = await create_metallb_access(kubeconfig, NAMESPACE) if _HEALTH_PORT in flags else ""
        yield await _start_with_retries(
            stack, settings, program=settings.metallb, folder=folder, token=token
        )


async def _start_with_retries(
    stack: AsyncExitStack, settings: EnvironmentSettings, program: Path, folder: Path, token: str
) -> MetalLB:
    """Start the controller; retry if another process has taken its port meanwhile."""
    remaining_attempts = _MAX_ATTEMPTS
    while True:
        remaining_attempts -= 1
        async with AsyncExitStack() as trial:
            children = Children(settings, folder, trial)
            try:
                metallb = await _start(
                    children, program, kubeconfig=folder / "kubeconfig", token=token
                )
            except PortTakenError as error:
                if not remaining_attempts:
                    raise PlaneError(str(error)) from error
                continue
            # From now on the caller's stack stops the process.
            stack.push_async_exit(trial.pop_all())
            return metallb


async def _start(children: Children, program: Path, kubeconfig: Path, token: str) -> MetalLB:
    """Start the controller on a free port and wait until it is ready.

    Args:
        children: starts the process.
        program: the controller.
        kubeconfig: the file with the kubeconfig of an administrator.
        token: the token for its metrics; empty for a version before 0.16, which needs none.
    """
    # It listens on all addresses of this machine, and has no flag to change that.
    port = choose_free_port(EVERYWHERE[0])
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
        # Two controllers on one machine would both use the default port. Port 0 switches it off.
        arguments.append(f"--{_HEALTH_PORT}=0")
    child = children.start(program, arguments, environment)
    url = f"{'https' if token else 'http'}://127.0.0.1:{port}"
    async with _create_metrics_session(url, token) as session:
        await children.wait_until_ready(child, session, path="/metrics", content=_HAS_READ_POOLS)
    started_line = _STARTED.search(await anyio.Path(child.log).read_text(errors="replace"))
    return MetalLB(
        started_line[1] if started_line else "",
        url,
        _token=token,
        _child=child,
        _children=children,
    )


def _create_metrics_session(url: str, token: str) -> ClientSession:
    """Return a session for the metrics; the controller's self-signed certificate is accepted."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return ClientSession(url, headers=headers, connector=TCPConnector(ssl=False))


@lru_cache(maxsize=16)
def _read_flags(program: Path, modified: int) -> str:  # noqa: ARG001 - part of the cache key
    """Return a controller's help about its flags; empty if it cannot be run, or takes too long.

    Args:
        program: the controller.
        modified: its modification time, a part of the cache's key: a replaced program is run
            again.
    """
    try:
        result = subprocess.run(  # noqa: S603
            [program, "-h"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_USAGE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        # The start of the program, which follows, reports the error.
        return ""
    return result.stdout.decode(errors="replace")


def _read_log(log: Path) -> str:
    """Return the content of a log file; invalid UTF-8 becomes U+FFFD."""
    return log.read_text(encoding="utf-8", errors="replace")


def read_metallb_definitions(settings: EnvironmentSettings) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of all kinds that the controller watches.

    They are MetalLB's own if the folder `metallb-crds` is next to the program. Otherwise they have
    minimal schemas, which allow every field.

    Raises:
        PlaneError: a file in that folder cannot be read.
    """
    if settings.metallb is not None:
        folder = settings.metallb.with_name("metallb-crds")
        if folder.is_dir():
            return read_crds(folder)
    return [_build_definition(kind, plural, versions) for kind, plural, *versions in _KINDS]


def _build_definition(kind: str, plural: str, versions: Sequence[str]) -> dict[str, Any]:
    """Return a CRD with a minimal schema; the last version is stored."""
    any_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    # The controller relies on the API server to set this default.
    pool_properties = {"autoAssign": {"type": "boolean", "default": True}}
    spec = {**any_object, "properties": pool_properties} if kind == "IPAddressPool" else any_object
    schema = {"type": "object", "properties": {"spec": spec, "status": any_object}}
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
