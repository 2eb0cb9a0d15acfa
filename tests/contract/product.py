"""The product as a process, with an integration switched on."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import yaml

from envtest.plane import ControlPlane as Plane
from manifests import folder
from reconcilers.api import names
from tests.reconcilers.cli.commands import butler_ipam, environment

HOME = names.DEFAULT_NAMESPACE
ACCOUNT = f"system:serviceaccount:{HOME}:butler-ipam"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}


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
    files = [
        one for part in ("rbac", integration) for one in sorted(folder(part).iterdir(), key=str)
    ]
    for file in files:
        for one in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if isinstance(one, dict) and one.get("kind") in PATHS:
                path = PATHS[one["kind"]].format(one["metadata"].get("namespace", HOME))
                answer = await admin.post(path, json=one)
                assert answer.status_code == 201, answer.text
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated"]
    await plane.add_user(ACCOUNT, groups)
    return plane.write_kubeconfig(where / f"{integration}-account", ACCOUNT)


@contextmanager
def product(
    integration: str,
    kubeconfig: Path,
    log: Path,
    *flags: str,
    program: Callable[..., list[str]] = butler_ipam,
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
            command, env=environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def frozen(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop a process in the middle of whatever it does, for the time of the context."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
