"""Empty clusters, with kubectl and Helm as an administrator installs things by them.

The administrator is one by RBAC and not by the group system:masters, so the API server checks that
no role gives away more than its creator has.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from envtest.plane import RunningControlPlane as Plane
from tests.polling import SECONDS, until
from tests.reconcilers.cli.commands import ROOT, environment
from tests.servers import Server, program, running
from tests.yamls import written_yaml

MANIFESTS = ROOT / "manifests"
HOME = "butler-system"
STAND_INS = Path(__file__).with_name("standins")
"""Definitions of kinds of other projects, as much of them as our manifests use."""
NAMESPACES = MANIFESTS / "samples/00-namespaces.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMINISTRATOR = "installer"


def write_manifests(*objects: Mapping[str, Any]) -> str:
    """Return manifests as one text."""
    return written_yaml(objects)


def condition(obj: Mapping[str, Any], name: str) -> str:
    """Return the status of a condition of an object: "True", "False" or "Unknown"."""
    # kube-apiserver shows null for the conditions of a definition that was created just now.
    conditions = obj.get("status", {}).get("conditions") or ()
    status = {condition["type"]: condition["status"] for condition in conditions}
    return str(status.get(name, "Unknown"))


class Cluster:
    """A cluster, and its administrator's kubectl and Helm.

    Args:
        plane: its control plane.
        folder: for the kubeconfig, caches and whatever a test writes.
        http: a client of the group system:masters.
    """

    def __init__(self, plane: Plane, folder: Path, http: httpx.AsyncClient) -> None:
        self.plane = plane
        self.folder = folder
        self.http = http
        self.config = plane.write_kubeconfig(folder / "config", ADMINISTRATOR)

    def require_real(self, why: str) -> None:
        """Skip the test on the embedded server."""
        if self.plane.kind == "embedded":
            pytest.skip(f"needs a real kube-apiserver: {why}")

    async def kubectl(self, *arguments: str | Path, stdin: str = "") -> str:
        """Run kubectl; fail if it fails or warns. Return what it prints."""
        said, complained = await self._succeed("kubectl", arguments, stdin)
        assert "Warning:" not in complained, complained
        return said

    async def until_kubectl(self, *arguments: str | Path) -> str:
        """Run kubectl until it succeeds, as a server does some things later; return its output."""
        _, said, _ = await until(
            lambda: self.run("kubectl", *arguments), lambda done: done[0] == 0
        )
        return said

    async def read(self, path: str) -> Any:
        """Return the server's answer to a GET; fail if it refuses.

        While it opens the storage of a kind it asks to come again, which kubectl does.
        """
        answer = await until(
            partial(self.http.get, path),
            lambda response: response.status_code != httpx.codes.TOO_MANY_REQUESTS,
        )
        assert answer.is_success, f"{path}: {answer.text}"
        return answer.json()

    async def read_stored(self, documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the objects that the server has of those in manifests; fail if one is missing.

        A start of kubectl takes longer than all of these requests, and adds nothing to them.
        """
        resources: dict[str, dict[str, Any]] = {}
        names = []
        for document in documents:
            version, kind, meta = document["apiVersion"], document["kind"], document["metadata"]
            prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
            if version not in resources:
                listed = (await self.read(prefix))["resources"]
                resources[version] = {
                    resource["kind"]: resource
                    for resource in listed
                    if "/" not in resource["name"]
                }
            resource = resources[version][kind]
            where = f"/namespaces/{meta.get('namespace', 'default')}"
            inner = where if resource["namespaced"] else ""
            names.append(await self.read(f"{prefix}{inner}/{resource['name']}/{meta['name']}"))
        return names

    async def definitions(self, *names: str) -> list[dict[str, Any]]:
        """Return definitions, all or those with these names, in their order."""
        definitions = {
            definition["metadata"]["name"]: definition
            for definition in (await self.read(DEFINITIONS))["items"]
        }
        return [definitions[name] for name in names] if names else list(definitions.values())

    async def wait_until_established(self, *names: str) -> list[dict[str, Any]]:
        """Return definitions, all or those with these names, once each is served."""

        def are_served(definitions: list[dict[str, Any]]) -> bool:
            return all(
                condition(definition, "Established") == "True" for definition in definitions
            )

        return await until(lambda: self.definitions(*names), are_served)

    async def _until_deletable(self) -> None:
        """Wait until the objects of each definition can be listed.

        kube-apiserver opens the storage of a kind at the first request for it. If that is its own
        one, for the objects to delete before the definition, it fails, and a race of the
        server's with itself may keep it from trying again for five minutes.
        """
        for definition in await self.definitions():
            group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
            version = next(
                version["name"] for version in definition["spec"]["versions"] if version["served"]
            )
            path = f"/apis/{group}/{version}/{plural}"
            await until(partial(self.http.get, path), lambda answer: answer.is_success)

    async def delete(self, *arguments: str | Path, stdin: str = "") -> None:
        """Delete by kubectl, definitions as the guide has it: after a look at their objects."""
        await self._until_deletable()
        await self.kubectl("delete", *arguments, stdin=stdin)

    async def undefine(self, *names: str) -> None:
        """Delete definitions, of those with these names that there are, and wait for the end."""
        await self._until_deletable()
        for name in names:
            answer = await self.http.delete(f"{DEFINITIONS}/{name}")
            assert answer.status_code in {200, 404}, answer.text
        await until(
            self.definitions,
            lambda definitions: (
                not {definition["metadata"]["name"] for definition in definitions} & {*names}
            ),
        )

    async def apply(self, *arguments: str | Path, stdin: str = "") -> str:
        """Apply manifests on the server's side: first as a dry run, then for good.

        A warning of the server is a failure, as is any field that it does not know.

        Returns:
            What kubectl prints the second time.
        """
        command = ("apply", "--server-side", *arguments)
        await self.kubectl(*command, "--dry-run=server", stdin=stdin)
        return await self.kubectl(*command, stdin=stdin)

    async def helm(self, *arguments: str | Path, stdin: str = "") -> str:
        """Run Helm; fail if it fails or passes on a warning. Return what it prints.

        Before a release is removed, its definitions are made deletable.
        """
        if arguments[0] == "uninstall":
            await self._until_deletable()
        said, complained = await self._succeed("helm", arguments, stdin)
        assert "warning" not in complained.lower(), complained
        return said

    async def succeed(self, path: str, *arguments: str | Path) -> str:
        """Run a program by its path; fail if it fails. Return what it prints."""
        said, complained = await self._succeed(path, arguments)
        return said + complained

    async def _succeed(
        self, name: str, arguments: tuple[str | Path, ...], stdin: str = ""
    ) -> tuple[str, str]:
        """Run a program that must succeed; return its standard output and standard error."""
        code, said, complained = await self.run(name, *arguments, stdin=stdin)
        assert code == 0, f"{name} {' '.join(map(str, arguments))}: {complained or said}"
        return said, complained

    async def run(
        self, name: str, *arguments: str | Path, stdin: str = ""
    ) -> tuple[int, str, str]:
        """Run a program from the root of the checkout, as the documents write commands.

        Returns:
            Its exit code, its standard output and its standard error.
        """
        executable = name if "/" in name else program(name)
        command = [executable, *(str(argument) for argument in arguments)]
        with anyio.move_on_after(SECONDS):
            done = await anyio.run_process(
                command, input=stdin.encode(), check=False, env=self._environment(), cwd=ROOT
            )
            return done.returncode, done.stdout.decode(), done.stderr.decode()
        remaining = await self._leaving()
        raise AssertionError(
            f"not within {SECONDS:.0f} s: {' '.join(command)}; leaving: {remaining}"
        )

    async def _leaving(self) -> dict[str, Any]:
        """Return the conditions of definitions that are being deleted."""
        return {
            definition["metadata"]["name"]: definition["status"].get("conditions")
            for definition in await self.definitions()
            if "deletionTimestamp" in definition["metadata"]
        }

    def _environment(self) -> dict[str, str]:
        helm = {
            f"HELM_{name}_HOME": str(self.folder / name) for name in ("CACHE", "CONFIG", "DATA")
        }
        return environment(
            KUBECONFIG=str(self.config), KUBECACHEDIR=str(self.folder / "kubectl"), **helm
        )


@asynccontextmanager
async def empty_cluster(server: Server, folder: Path) -> AsyncIterator[Cluster]:
    """Run a cluster that has an administrator and the namespaces, and nothing else."""
    async with (
        running(server) as plane,
        httpx.AsyncClient(
            base_url=plane.url, verify=plane.tls(), headers=plane.admin_headers(), timeout=60
        ) as http,
    ):
        if plane.kind == "existing":
            pytest.skip("these tests install things, and the cluster is not theirs")
        await plane.add_user(ADMINISTRATOR, ["system:authenticated"])
        binding = {
            "metadata": {"name": ADMINISTRATOR},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "User",
                    "name": ADMINISTRATOR,
                }
            ],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        (await http.post(path, json=binding)).raise_for_status()
        cluster = Cluster(plane, folder, http)
        # The API server sees a moment later what makes the administrator one.
        await cluster.until_kubectl("auth", "can-i", "*", "*")
        # A dry run creates no namespaces, so they have to be there before.
        await cluster.kubectl("apply", "--server-side", "-f", NAMESPACES)
        yield cluster
