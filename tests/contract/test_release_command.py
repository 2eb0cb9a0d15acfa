"""`butler-ipam release` sets the annotation release-anyway, or says which right is missing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from typing_extensions import override

from controller.client import Client
from controller.config import open_transport
from controller.meta import Key
from envtest.plane import RunningControlPlane as Plane
from reconcilers.addressmap.objects import read_objects
from reconcilers.api import names
from reconcilers.cli.cluster.objects import run_in_cluster
from reconcilers.cli.problems import CommandProblem
from reconcilers.cli.release import Preview, annotate
from tests.contract.roles import list_manifests
from tests.contract.test_webhooks import RBAC, Site, bind, request, site
from tests.reconcilers.cli.commandline import Outcome, run_beside

__all__ = ["site"]

PATH = f"/apis/{names.API_VERSION}/namespaces/team/tenantclusters/a"
SPEC = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}
ROLES = ("butler-ipam-editor", "butler-ipam-release", "butler-ipam-viewer")
RANGE = {
    "allocation": "team-a-lb",
    "namespace": "butler-system",
    "pool": "lab",
    "type": "loadbalancer",
    "role": "initial",
    "family": "IPv4",
    "range": "10.40.0.0-10.40.0.7",
    "releasing": True,
    "services": ["default/web"],
}


@pytest.fixture
async def roles(site: Site, admin: httpx.AsyncClient) -> None:
    """The shipped roles, each bound in the team's namespace to a group of its name."""
    for role in list_manifests("rbac"):
        if role["metadata"]["name"] in ROLES:
            response = await admin.post(f"{RBAC}/clusterroles", json=role)
            assert response.status_code == 201, response.text
            await bind(admin, role["metadata"]["name"], role["metadata"]["name"])


async def user_of(plane: Plane, folder: Path, name: str, *groups: str) -> Path:
    await plane.add_user(name, [*groups, "system:authenticated"])
    return plane.write_kubeconfig(folder / name, name)


async def release(kubeconfig: Path, *options: str) -> Outcome:
    command = ("release", "team/a", f"--kubeconfig={kubeconfig}")
    return await run_beside(*command, *options)


async def annotations(admin: httpx.AsyncClient) -> dict[str, Any]:
    answer = await admin.get(PATH)
    return dict(answer.json()["metadata"].get("annotations") or {})


async def write_ranges(admin: httpx.AsyncClient, *ranges: dict[str, Any]) -> None:
    """Write the ranges that a TenantCluster shows in its status."""
    status = {"status": {"network": {"ranges": ranges}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    written = await admin.patch(f"{PATH}/status", json=status, headers=headers)
    assert written.is_success, written.text


@pytest.mark.usefixtures("roles")
async def test_who_has_the_verb_releases_a_tenant_and_sees_its_ranges_before(
    site: Site, admin: httpx.AsyncClient, plane: Plane, tmp_path: Path
) -> None:
    editor = await user_of(plane, tmp_path, "ed", "butler-ipam-editor")
    releaser = await user_of(plane, tmp_path, "rita", "butler-ipam-editor", "butler-ipam-release")
    async with site.serve_webhooks():
        assert (await site.create("TenantCluster", "a", SPEC, namespace="team")).is_success
        refused = await release(editor, "--yes")
        assert refused.code == 1
        [sentence] = refused.errors
        assert sentence.startswith(
            "you lack the verb release on TenantCluster team/a: let an administrator bind"
            " ClusterRole butler-ipam-release in namespace team."
        )
        assert names.ANNOTATION_RELEASE_ANYWAY not in await annotations(admin)
        released = await release(releaser, "--yes")
        assert released.code == 0, released.err
        assert (await annotations(admin))[names.ANNOTATION_RELEASE_ANYWAY] == "true"
        again = await release(releaser)
        assert again.code == 0
        assert again.out.startswith("TenantCluster team/a, phase")
        assert "has the annotation butler.butlerlabs.dev/release-anyway already" in again.out


@pytest.mark.usefixtures("roles")
async def test_a_reader_of_one_namespace_sees_the_ranges_and_the_right_to_change_that_is_missing(
    site: Site, admin: httpx.AsyncClient, plane: Plane, tmp_path: Path
) -> None:
    viewer = await user_of(plane, tmp_path, "vera", "butler-ipam-viewer")
    assert (await site.create("TenantCluster", "a", SPEC, namespace="team")).is_success
    await write_ranges(admin, RANGE)
    without_terminal = await release(viewer)
    assert without_terminal.code == 2
    assert (
        "there is no terminal to ask for confirmation; pass --yes to continue"
        in without_terminal.err
    )
    for word in ("butler-system/team-a-lb", "10.40.0.0-10.40.0.7", "now", "default/web"):
        assert word in without_terminal.out
    refused = await release(viewer, "--yes")
    assert refused.code == 1
    assert (
        "you lack the right to patch TenantCluster team/a: let an administrator bind ClusterRole"
        " butler-ipam-editor in namespace team." in refused.errors[-1]
    )
    assert names.ANNOTATION_RELEASE_ANYWAY not in await annotations(admin)


async def test_a_write_of_a_controller_after_the_preview_does_not_stop_a_release(
    site: Site,
    admin: httpx.AsyncClient,
    plane: Plane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await site.create("TenantCluster", "a", SPEC, namespace="team")).is_success
    await write_ranges(admin, RANGE)
    note = {"metadata": {"annotations": {"team.example/note": "x"}, "finalizers": ["a.test/b"]}}

    def work_on(http: httpx.Client) -> None:
        patch(http, PATH, note)
        patch(http, f"{PATH}/status", {"status": {"phase": "Provisioning"}})

    write_after_preview(monkeypatch, plane, work_on)
    released = await release(plane.write_kubeconfig(tmp_path / "admin"), "--yes")
    assert (released.code, released.errors) == (0, [])
    assert (await annotations(admin))[names.ANNOTATION_RELEASE_ANYWAY] == "true"
    assert (await annotations(admin))["team.example/note"] == "x"


async def test_a_tenant_whose_ranges_changed_after_the_preview_is_shown_and_left_as_it_is(
    site: Site,
    admin: httpx.AsyncClient,
    plane: Plane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await site.create("TenantCluster", "a", SPEC, namespace="team")).is_success
    lab = {"cidr": "10.40.0.0/24"}
    assert (await site.create("NetworkPool", "lab", lab)).is_success
    range_of = {"startAddress": "10.40.0.0", "endAddress": "10.40.0.7", "phase": "Allocated"}
    spec = request(count=8, type="loadbalancer")
    assert (await site.create("IPAllocation", "first", spec)).is_success
    allocations = f"/apis/{names.API_VERSION}/namespaces/butler-system/ipallocations"

    def work_on(http: httpx.Client) -> None:
        patch(http, f"{allocations}/first/status", {"status": range_of})
        patch(http, PATH, {"metadata": {"annotations": {"team.example/note": "x"}}})

    write_after_preview(monkeypatch, plane, work_on)
    refused = await release(plane.write_kubeconfig(tmp_path / "admin"), "--yes")
    assert refused.code == 1
    assert "TenantCluster team/a changed since it was shown" in refused.errors[-1]
    assert refused.out.count("TenantCluster team/a, phase") == 2
    assert "butler-system/first" in refused.out.rpartition("TenantCluster team/a")[2]
    assert names.ANNOTATION_RELEASE_ANYWAY not in await annotations(admin)


async def test_a_tenant_that_was_recreated_after_the_preview_is_left_as_it_is(
    site: Site,
    admin: httpx.AsyncClient,
    plane: Plane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await site.create("TenantCluster", "a", SPEC, namespace="team")).is_success

    def recreate_tenant(http: httpx.Client) -> None:
        """Delete the TenantCluster and create it again with the same spec, so with another uid."""
        body = http.get(PATH).json()
        assert http.delete(PATH).is_success
        manifest = {name: body[name] for name in ("apiVersion", "kind", "spec")}
        manifest["metadata"] = {"name": "a"}
        response = http.post(PATH.rpartition("/")[0], json=manifest)
        assert response.is_success, response.text

    write_after_preview(monkeypatch, plane, recreate_tenant)
    refused = await release(plane.write_kubeconfig(tmp_path / "admin"), "--yes")
    assert refused.code == 1
    assert "TenantCluster team/a changed since it was shown" in refused.errors[-1]
    assert names.ANNOTATION_RELEASE_ANYWAY not in await annotations(admin)


async def test_a_tenant_that_is_written_to_all_the_time_is_left_after_some_tries(
    site: Site, admin: httpx.AsyncClient, plane: Plane, tmp_path: Path
) -> None:
    assert (await site.create("TenantCluster", "a", SPEC, namespace="team")).is_success

    class Busy(Client):
        """A client before each of whose writes another client writes."""

        @override
        async def patch(self, *arguments: Any, **more: Any) -> Any:
            change = {"metadata": {"annotations": {"team.example/note": str(len(tries))}}}
            headers = {"Content-Type": "application/merge-patch+json"}
            assert (await admin.patch(PATH, json=change, headers=headers)).is_success
            tries.append(arguments)
            return await super().patch(*arguments, **more)

    tries: list[Any] = []
    kubeconfig = plane.write_kubeconfig(tmp_path / "admin")
    async with open_transport(kubeconfig, None, user_agent="test") as transport:
        client = Busy(transport)
        objects = await read_objects(client)
        preview = Preview.from_objects(objects.clusters[Key("team", "a")], objects)
        with pytest.raises(CommandProblem, match="5 times by other clients"):
            await annotate(client, preview, "")
    assert len(tries) == 5
    assert names.ANNOTATION_RELEASE_ANYWAY not in await annotations(admin)


def write_after_preview(
    monkeypatch: pytest.MonkeyPatch, plane: Plane, write: Callable[[httpx.Client], None]
) -> None:
    """Let another client write once the command has shown what it releases."""

    def write_first(*arguments: Any) -> Any:
        tls, headers = plane.tls(), plane.admin_headers()
        with httpx.Client(base_url=plane.url, verify=tls, headers=headers, timeout=30) as http:
            write(http)
        return run_in_cluster(*arguments)

    monkeypatch.setattr("reconcilers.cli.release.run_in_cluster", write_first)


def patch(http: httpx.Client, path: str, change: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    answer = http.patch(path, json=change, headers=headers)
    assert answer.is_success, answer.text
