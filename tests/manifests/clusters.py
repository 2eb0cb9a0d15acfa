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
from tests.reconcilers.cli.commands import ROOT, make_environment
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
    """Return objects as one YAML text."""
    return written_yaml(objects)


def read_condition_status(obj: Mapping[str, Any], name: str) -> str:
    """Return the status of a condition of an object: "True", "False" or "Unknown".

    Args:
        obj: the object.
        name: the type of the condition.
    """
    # kube-apiserver shows null for the conditions of a definition that was created just now.
    conditions = obj.get("status", {}).get("conditions") or ()
    status = {condition["type"]: condition["status"] for condition in conditions}
    return str(status.get(name, "Unknown"))


class Cluster:
    """A cluster, and its administrator's kubectl and Helm.

    Args:
        plane: its control plane.
        folder: where the kubeconfig, caches of programs and files of tests are written.
        http: a client that the API server authorizes for everything.
    """

    def __init__(self, plane: Plane, folder: Path, http: httpx.AsyncClient) -> None:
        self.plane = plane
        self.folder = folder
        self.http = http
        self.config = plane.write_kubeconfig(folder / "config", ADMINISTRATOR)

    def require_real(self, reason: str) -> None:
        """Skip the test, with a reason, if the cluster is the embedded API server."""
        if self.plane.kind == "embedded":
            pytest.skip(f"needs a real kube-apiserver: {reason}")

    async def kubectl(self, *arguments: str | Path, stdin: str = "") -> str:
        """Run kubectl and return its output; fail if kubectl fails or prints a warning."""
        output, error_output = await self._succeed("kubectl", arguments, stdin)
        assert "Warning:" not in error_output, error_output
        return output

    async def retry_kubectl(self, *arguments: str | Path) -> str:
        """Run kubectl until it succeeds, because some of the server's work is asynchronous.

        Returns:
            Its output.
        """
        _, output, _ = await until(
            lambda: self.run("kubectl", *arguments), lambda done: done[0] == 0
        )
        return output

    async def read(self, path: str) -> Any:
        """Return the JSON of a GET; fail if the server rejects the request.

        The server answers 429 while it opens the storage of a kind; then the request is retried,
        as kubectl does.
        """
        answer = await until(
            partial(self.http.get, path),
            lambda response: response.status_code != httpx.codes.TOO_MANY_REQUESTS,
        )
        assert answer.is_success, f"{path}: {answer.text}"
        return answer.json()

    async def read_stored(self, documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the stored objects of manifests, in order; fail if an object is missing.

        Plain GETs are used because a start of kubectl takes longer than all of them.
        """
        resources: dict[str, dict[str, Any]] = {}
        stored = []
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
            namespace = f"/namespaces/{meta.get('namespace', 'default')}"
            scope = namespace if resource["namespaced"] else ""
            path = f"{prefix}{scope}/{resource['name']}/{meta['name']}"
            stored.append(await self.read(path))
        return stored

    async def list_definitions(self, *names: str) -> list[dict[str, Any]]:
        """Return the CustomResourceDefinitions with these names, in order; without names, all."""
        definitions = {
            definition["metadata"]["name"]: definition
            for definition in (await self.read(DEFINITIONS))["items"]
        }
        return [definitions[name] for name in names] if names else list(definitions.values())

    async def wait_until_established(self, *names: str) -> list[dict[str, Any]]:
        """Return the definitions with these names (without names, all) once all are served."""

        def are_served(definitions: list[dict[str, Any]]) -> bool:
            return all(
                read_condition_status(definition, "Established") == "True"
                for definition in definitions
            )

        return await until(lambda: self.list_definitions(*names), are_served)

    async def _until_deletable(self) -> None:
        """Wait until the objects of each definition can be listed.

        kube-apiserver opens the storage of a kind at the first request for it. When a definition
        is deleted, kube-apiserver lists its objects. If that is the first request, it fails, and a
        race in kube-apiserver can delay the retry by five minutes.
        """
        for definition in await self.list_definitions():
            group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
            version = next(
                version["name"] for version in definition["spec"]["versions"] if version["served"]
            )
            path = f"/apis/{group}/{version}/{plural}"
            await until(partial(self.http.get, path), lambda answer: answer.is_success)

    async def delete(self, *arguments: str | Path, stdin: str = "") -> None:
        """Delete objects by kubectl, once the objects of all definitions can be listed."""
        await self._until_deletable()
        await self.kubectl("delete", *arguments, stdin=stdin)

    async def undefine(self, *names: str) -> None:
        """Delete the definitions with these names that exist, and wait until they are gone."""
        await self._until_deletable()
        for name in names:
            answer = await self.http.delete(f"{DEFINITIONS}/{name}")
            assert answer.status_code in {200, 404}, answer.text
        await until(
            self.list_definitions,
            lambda definitions: (
                not {definition["metadata"]["name"] for definition in definitions} & {*names}
            ),
        )

    async def apply(self, *arguments: str | Path, stdin: str = "") -> str:
        """Apply manifests by server-side apply: first as a dry run, then for good.

        A warning of the server fails the test, and so does a field that the server does not know.

        Returns:
            The output of kubectl without the dry run.
        """
        command = ("apply", "--server-side", *arguments)
        await self.kubectl(*command, "--dry-run=server", stdin=stdin)
        return await self.kubectl(*command, stdin=stdin)

    async def helm(self, *arguments: str | Path, stdin: str = "") -> str:
        """Run Helm and return its output; fail if Helm fails or prints a warning.

        Before `helm uninstall` it waits until the release's definitions can be deleted.
        """
        if arguments[0] == "uninstall":
            await self._until_deletable()
        output, error_output = await self._succeed("helm", arguments, stdin)
        assert "warning" not in error_output.lower(), error_output
        return output

    async def succeed(self, path: str, *arguments: str | Path) -> str:
        """Run the program at a path and return its output with its errors; fail if it fails."""
        output, error_output = await self._succeed(path, arguments)
        return output + error_output

    async def _succeed(
        self, name: str, arguments: tuple[str | Path, ...], stdin: str = ""
    ) -> tuple[str, str]:
        """Run a program that must succeed; return its standard output and standard error."""
        code, output, error_output = await self.run(name, *arguments, stdin=stdin)
        assert code == 0, f"{name} {' '.join(map(str, arguments))}: {error_output or output}"
        return output, error_output

    async def run(
        self, name: str, *arguments: str | Path, stdin: str = ""
    ) -> tuple[int, str, str]:
        """Run a program in the root folder of the checkout, from which documented commands run.

        Returns:
            Its exit code, its standard output and its standard error.
        """
        # A name with a slash is a path; kubectl and helm are looked up.
        executable = name if "/" in name else program(name)
        command = [executable, *(str(argument) for argument in arguments)]
        with anyio.move_on_after(SECONDS):
            done = await anyio.run_process(
                command, input=stdin.encode(), check=False, env=self._environment(), cwd=ROOT
            )
            return done.returncode, done.stdout.decode(), done.stderr.decode()
        remaining = await self._list_terminating()
        raise AssertionError(
            f"not within {SECONDS:.0f} s: {' '.join(command)}; terminating: {remaining}"
        )

    async def _list_terminating(self) -> dict[str, Any]:
        """Return the conditions of the definitions that are being deleted, by name."""
        return {
            definition["metadata"]["name"]: definition["status"].get("conditions")
            for definition in await self.list_definitions()
            if "deletionTimestamp" in definition["metadata"]
        }

    def _environment(self) -> dict[str, str]:
        """Return the variables with which kubectl and Helm meet this cluster only."""
        helm = {
            f"HELM_{name}_HOME": str(self.folder / name) for name in ("CACHE", "CONFIG", "DATA")
        }
        return make_environment(
            KUBECONFIG=str(self.config), KUBECACHEDIR=str(self.folder / "kubectl"), **helm
        )


@asynccontextmanager
async def run_empty_cluster(server: Server, folder: Path) -> AsyncIterator[Cluster]:
    """Run a cluster that has an administrator and the samples' namespaces, and nothing else."""
    async with (
        running(server) as plane,
        httpx.AsyncClient(
            base_url=plane.url,
            verify=plane.create_admin_tls(),
            headers=plane.build_admin_headers(),
            timeout=60,
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
        # The API server authorizes by a cache that follows the binding a moment later.
        await cluster.retry_kubectl("auth", "can-i", "*", "*")
        # A dry run creates no namespaces, so they have to exist before it.
        await cluster.kubectl("apply", "--server-side", "-f", NAMESPACES)
        yield cluster
