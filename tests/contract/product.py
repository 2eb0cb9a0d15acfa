"""The product as a process, with an integration switched on."""

import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx

from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from manifests import get_folder
from reconcilers.api import crd, names
from tests.contract.conftest import administrator
from tests.freezing import freeze, thaw
from tests.polling import make_awaitable, until
from tests.reconcilers.cli.commands import make_command_line, make_environment
from tests.tracebacks import find_traceback
from tests.yamls import read_all_yaml

HOME = names.DEFAULT_NAMESPACE
ACCOUNT = f"system:serviceaccount:{HOME}:butler-ipam"
DATA = Path(__file__).parents[1] / "data"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}


async def install_kinds(
    plane: Plane, integration: str, more: Iterable[Mapping[str, Any]] = ()
) -> None:
    """Install our kinds, those of an integration in its folder of tests/data, and `more`."""
    await plane.install_crds(crd.build_crds())
    await plane.install_crds(DATA / integration / "crds.yaml")
    await plane.install_crds(dict(definition) for definition in more)


async def under_shipped_roles(
    plane: Plane, admin: httpx.AsyncClient, where: Path, integration: str
) -> Path:
    """Install the roles of the product and of an integration; return a kubeconfig with them.

    Args:
        plane: the server.
        admin: the administrator's client of it.
        where: the folder of the kubeconfig.
        integration: its name, which is that of its component in manifests/.
    """
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    assert (await admin.post("/api/v1/namespaces", json=body)).status_code in {201, 409}
    for component in ("rbac", integration):
        await install_roles(admin, component)
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated"]
    await plane.add_user(ACCOUNT, groups)
    return plane.write_kubeconfig(where / f"{integration}-account", ACCOUNT)


async def install_roles(admin: httpx.AsyncClient, component: str) -> None:
    """Create the roles and bindings of a component in manifests/.

    Args:
        admin: the administrator's client.
        component: the folder.
    """
    for file in sorted(get_folder(component).iterdir(), key=str):
        for role in read_all_yaml(file.read_text(encoding="utf-8")):
            if isinstance(role, dict) and role.get("kind") in PATHS:
                path = PATHS[role["kind"]].format(role["metadata"].get("namespace", HOME))
                answer = await admin.post(path, json=role)
                assert answer.status_code == 201, answer.text


@contextmanager
def product(
    integration: str,
    kubeconfig: Path,
    log: Path,
    *flags: str,
    program: Callable[..., list[str]] = make_command_line,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the product with an integration as a process; it is killed at the end.

    Args:
        integration: its name.
        kubeconfig: of the API server.
        log: the file that its output is added to.
        flags: more of its flags.
        program: returns the command line.
    """
    command = program(
        "run",
        f"--kubeconfig={kubeconfig}",
        f"--integration={integration}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--log-format=console",
        *flags,
    )
    with log.open("ab") as out:
        process = subprocess.Popen(
            command,
            env=make_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Server:
    """A server on which the product serves an integration.

    Args:
        plane: the server.
        admin: the administrator's client.
        kubeconfig: of the product, with the roles that it is installed with.
        admin_kubeconfig: the administrator's.
        process: the product.
        log: the file that it logs into.
    """

    plane: Plane
    admin: httpx.AsyncClient
    kubeconfig: Path
    admin_kubeconfig: Path
    process: subprocess.Popen[bytes]
    log: Path


async def release_line(log: Path, holder: str) -> str:
    """Wait until the log has a line that a holder released its addresses; return the line.

    Args:
        holder: kind and name, as the line has them.
    """

    def find_lines() -> list[str]:
        lines = log.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if "releas" in line and f"holder='{holder}'" in line]

    [line] = await until(make_awaitable(find_lines), bool)
    return line


@asynccontextmanager
async def serving(
    integration: str,
    where: Path,
    more: Iterable[Mapping[str, Any]] = (),
    flags: Iterable[str] = (),
) -> AsyncIterator[Server]:
    """Start a server with our kinds and an integration's, and the product.

    Args:
        integration: its name, which is that of its folder in tests/data.
        where: the folder for kubeconfigs and the log.
        more: further CRDs.
        flags: further flags of the product.

    Raises:
        AssertionError: the product was refused something by its roles, or logged a traceback.
    """
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install_kinds(plane, integration, more)
        kubeconfig = await under_shipped_roles(plane, admin, where=where, integration=integration)
        log = where / "log"
        with product(integration, kubeconfig, log, *flags) as process:
            admin_kubeconfig = plane.write_kubeconfig(where / "admin")
            yield Server(
                plane,
                admin,
                kubeconfig=kubeconfig,
                admin_kubeconfig=admin_kubeconfig,
                process=process,
                log=log,
            )
        content = await anyio.Path(log).read_text(encoding="utf-8")
        assert "403 Forbidden" not in content, "the shipped roles do not suffice"
        traceback = find_traceback(content)
        assert not traceback, f"the product survived a bug:\n{traceback}"


@contextmanager
def frozen(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop a process in the middle of whatever it does, for the time of the context."""
    freeze(process.pid)
    try:
        yield
    finally:
        thaw(process.pid)
