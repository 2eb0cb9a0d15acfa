"""`butler-ipam release` sets the annotation release-anyway, or reports the missing permission."""

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
from tests.contract.test_webhooks import RBAC, WebhookLab, bind_role, lab, make_allocation_spec
from tests.reconcilers.cli.commandline import Outcome, run_in_thread

__all__ = ["lab"]

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
async def roles(lab: WebhookLab, admin: httpx.AsyncClient) -> None:
    """The shipped ClusterRoles in ROLES, each bound in `team` to the group of its name."""
    for role in list_manifests("rbac"):
        if role["metadata"]["name"] in ROLES:
            response = await admin.post(f"{RBAC}/clusterroles", json=role)
            assert response.status_code == 201, response.text
            await bind_role(admin, role["metadata"]["name"], role["metadata"]["name"])


async def write_user_kubeconfig(plane: Plane, folder: Path, name: str, *groups: str) -> Path:
    """Add a user with groups; return the user's kubeconfig in a folder."""
    await plane.add_user(name, [*groups, "system:authenticated"])
    return plane.write_kubeconfig(folder / name, name)


async def run_release(kubeconfig: Path, *options: str) -> Outcome:
    """Run `release team/a` with a kubeconfig, without a terminal."""
    command = ("release", "team/a", f"--kubeconfig={kubeconfig}")
    return await run_in_thread(*command, *options)


async def read_annotations(admin: httpx.AsyncClient) -> dict[str, Any]:
    """Return the annotations of TenantCluster team/a."""
    answer = await admin.get(PATH)
    return dict(answer.json()["metadata"].get("annotations") or {})


async def write_ranges(admin: httpx.AsyncClient, *ranges: dict[str, Any]) -> None:
    """Write ranges to the status of TenantCluster team/a."""
    status = {"status": {"network": {"ranges": ranges}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    written = await admin.patch(f"{PATH}/status", json=status, headers=headers)
    assert written.is_success, written.text


@pytest.mark.usefixtures("roles")
async def test_only_a_user_with_the_verb_release_can_release_a_tenant_and_a_repetition_is_reported(
    lab: WebhookLab, admin: httpx.AsyncClient, plane: Plane, tmp_path: Path
) -> None:
    editor = await write_user_kubeconfig(plane, tmp_path, "ed", "butler-ipam-editor")
    releaser = await write_user_kubeconfig(
        plane, tmp_path, "rita", "butler-ipam-editor", "butler-ipam-release"
    )
    async with lab.serve_webhooks():
        assert (await lab.create("TenantCluster", "a", SPEC, namespace="team")).is_success
        refused = await run_release(editor, "--yes")
        assert refused.code == 1
        [sentence] = refused.errors
        assert sentence.startswith(
            "you lack the verb release on TenantCluster team/a: let an administrator bind"
            " ClusterRole butler-ipam-release in namespace team."
        )
        assert names.ANNOTATION_RELEASE_ANYWAY not in await read_annotations(admin)
        released = await run_release(releaser, "--yes")
        assert released.code == 0, released.err
        assert (await read_annotations(admin))[names.ANNOTATION_RELEASE_ANYWAY] == "true"
        again = await run_release(releaser)
        assert again.code == 0
        assert again.out.startswith("TenantCluster team/a, phase")
        assert "has the annotation butler.butlerlabs.dev/release-anyway already" in again.out


@pytest.mark.usefixtures("roles")
async def test_a_viewer_sees_the_ranges_and_is_told_about_the_missing_permission_to_patch(
    lab: WebhookLab, admin: httpx.AsyncClient, plane: Plane, tmp_path: Path
) -> None:
    viewer = await write_user_kubeconfig(plane, tmp_path, "vera", "butler-ipam-viewer")
    assert (await lab.create("TenantCluster", "a", SPEC, namespace="team")).is_success
    await write_ranges(admin, RANGE)
    without_terminal = await run_release(viewer)
    assert without_terminal.code == 2
    assert (
        "there is no terminal to ask for confirmation; pass --yes to continue"
        in without_terminal.err
    )
    for word in ("butler-system/team-a-lb", "10.40.0.0-10.40.0.7", "now", "default/web"):
        assert word in without_terminal.out
    refused = await run_release(viewer, "--yes")
    assert refused.code == 1
    assert (
        "you lack the right to patch TenantCluster team/a: let an administrator bind ClusterRole"
        " butler-ipam-editor in namespace team." in refused.errors[-1]
    )
    assert names.ANNOTATION_RELEASE_ANYWAY not in await read_annotations(admin)


async def test_a_write_of_a_controller_after_the_preview_does_not_stop_a_release(
    lab: WebhookLab,
    admin: httpx.AsyncClient,
    plane: Plane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await lab.create("TenantCluster", "a", SPEC, namespace="team")).is_success
    await write_ranges(admin, RANGE)
    note = {"metadata": {"annotations": {"team.example/note": "x"}, "finalizers": ["a.test/b"]}}

    def write_as_controller(http: httpx.Client) -> None:
        send_patch(http, PATH, note)
        send_patch(http, f"{PATH}/status", {"status": {"phase": "Provisioning"}})

    write_after_preview(monkeypatch, plane, write_as_controller)
    released = await run_release(plane.write_kubeconfig(tmp_path / "admin"), "--yes")
    assert (released.code, released.errors) == (0, [])
    assert (await read_annotations(admin))[names.ANNOTATION_RELEASE_ANYWAY] == "true"
    assert (await read_annotations(admin))["team.example/note"] == "x"


async def test_a_tenant_whose_ranges_changed_after_the_preview_is_shown_again_and_not_released(
    lab: WebhookLab,
    admin: httpx.AsyncClient,
    plane: Plane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await lab.create("TenantCluster", "a", SPEC, namespace="team")).is_success
    pool_spec = {"cidr": "10.40.0.0/24"}
    assert (await lab.create("NetworkPool", "lab", pool_spec)).is_success
    allocated_status = {
        "startAddress": "10.40.0.0",
        "endAddress": "10.40.0.7",
        "phase": "Allocated",
    }
    spec = make_allocation_spec(count=8, type="loadbalancer")
    assert (await lab.create("IPAllocation", "first", spec)).is_success
    allocations = f"/apis/{names.API_VERSION}/namespaces/butler-system/ipallocations"

    def write_as_controller(http: httpx.Client) -> None:
        send_patch(http, f"{allocations}/first/status", {"status": allocated_status})
        send_patch(http, PATH, {"metadata": {"annotations": {"team.example/note": "x"}}})

    write_after_preview(monkeypatch, plane, write_as_controller)
    refused = await run_release(plane.write_kubeconfig(tmp_path / "admin"), "--yes")
    assert refused.code == 1
    assert "TenantCluster team/a changed since it was shown" in refused.errors[-1]
    assert refused.out.count("TenantCluster team/a, phase") == 2
    assert "butler-system/first" in refused.out.rpartition("TenantCluster team/a")[2]
    assert names.ANNOTATION_RELEASE_ANYWAY not in await read_annotations(admin)


async def test_a_tenant_that_was_recreated_after_the_preview_is_not_released(
    lab: WebhookLab,
    admin: httpx.AsyncClient,
    plane: Plane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await lab.create("TenantCluster", "a", SPEC, namespace="team")).is_success

    def recreate_tenant(http: httpx.Client) -> None:
        """Delete the TenantCluster and create it again with the same spec, so with another uid."""
        body = http.get(PATH).json()
        assert http.delete(PATH).is_success
        manifest = {name: body[name] for name in ("apiVersion", "kind", "spec")}
        manifest["metadata"] = {"name": "a"}
        response = http.post(PATH.rpartition("/")[0], json=manifest)
        assert response.is_success, response.text

    write_after_preview(monkeypatch, plane, recreate_tenant)
    refused = await run_release(plane.write_kubeconfig(tmp_path / "admin"), "--yes")
    assert refused.code == 1
    assert "TenantCluster team/a changed since it was shown" in refused.errors[-1]
    assert names.ANNOTATION_RELEASE_ANYWAY not in await read_annotations(admin)


async def test_a_release_fails_after_5_attempts_if_another_client_writes_before_each(
    lab: WebhookLab, admin: httpx.AsyncClient, plane: Plane, tmp_path: Path
) -> None:
    assert (await lab.create("TenantCluster", "a", SPEC, namespace="team")).is_success

    class ClientWithRival(Client):
        """A client whose patches are always preceded by a write of another client."""

        @override
        async def patch(self, *arguments: Any, **more: Any) -> Any:
            change = {"metadata": {"annotations": {"team.example/note": str(len(attempts))}}}
            headers = {"Content-Type": "application/merge-patch+json"}
            assert (await admin.patch(PATH, json=change, headers=headers)).is_success
            attempts.append(arguments)
            return await super().patch(*arguments, **more)

    attempts: list[Any] = []
    kubeconfig = plane.write_kubeconfig(tmp_path / "admin")
    async with open_transport(kubeconfig, None, user_agent="test") as transport:
        client = ClientWithRival(transport)
        objects = await read_objects(client)
        preview = Preview.from_objects(objects.clusters[Key("team", "a")], objects)
        with pytest.raises(CommandProblem, match="5 times by other clients"):
            await annotate(client, preview, "")
    assert len(attempts) == 5
    assert names.ANNOTATION_RELEASE_ANYWAY not in await read_annotations(admin)


def write_after_preview(
    monkeypatch: pytest.MonkeyPatch, plane: Plane, write: Callable[[httpx.Client], None]
) -> None:
    """Let another client write between the command's preview and its own write.

    Args:
        monkeypatch: restores the command after the test.
        plane: the API server.
        write: writes as the other client.
    """

    def write_first(*arguments: Any) -> Any:
        tls, headers = plane.create_admin_tls(), plane.build_admin_headers()
        with httpx.Client(base_url=plane.url, verify=tls, headers=headers, timeout=30) as http:
            write(http)
        return run_in_cluster(*arguments)

    monkeypatch.setattr("reconcilers.cli.release.run_in_cluster", write_first)


def send_patch(http: httpx.Client, path: str, change: dict[str, Any]) -> None:
    """Apply a merge patch to an object."""
    headers = {"Content-Type": "application/merge-patch+json"}
    answer = http.patch(path, json=change, headers=headers)
    assert answer.is_success, answer.text
