"""`butler-ipam release` sets the annotation release-anyway, or says which right is missing."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.client import Client
from controller.config import connected
from controller.meta import Key
from envtest.plane import ControlPlane as Plane
from reconcilers.api import names
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.cli.problems import Problem
from reconcilers.cli.release import _annotate
from tests.contract.roles import documents
from tests.contract.test_webhooks import RBAC, Site, bind, site
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
    for role in documents("rbac"):
        if role["metadata"]["name"] in ROLES:
            made = await admin.post(f"{RBAC}/clusterroles", json=role)
            assert made.status_code == 201, made.text
            await bind(admin, role["metadata"]["name"], role["metadata"]["name"])


async def user_of(plane: Plane, folder: Path, name: str, *groups: str) -> Path:
    await plane.add_user(name, [*groups, "system:authenticated"])
    return plane.write_kubeconfig(folder / name, name)


async def release(kubeconfig: Path, *options: str) -> Outcome:
    command = ("release", "team/a", "-n", "team", f"--kubeconfig={kubeconfig}")
    return await run_beside(*command, *options)


async def annotations(admin: httpx.AsyncClient) -> dict[str, Any]:
    answer = await admin.get(PATH)
    return dict(answer.json()["metadata"].get("annotations") or {})


@pytest.mark.usefixtures("roles")
async def test_who_has_the_verb_releases_a_tenant_and_sees_its_ranges_before(
    site: Site, admin: httpx.AsyncClient, plane: Plane, tmp_path: Path
) -> None:
    editor = await user_of(plane, tmp_path, "ed", "butler-ipam-editor")
    releaser = await user_of(plane, tmp_path, "rita", "butler-ipam-editor", "butler-ipam-release")
    async with site.judged():
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
        assert (again.code, "already" in again.out) == (0, True)


@pytest.mark.usefixtures("roles")
async def test_a_reader_of_one_namespace_sees_the_ranges_and_the_right_to_change_that_is_missing(
    site: Site, admin: httpx.AsyncClient, plane: Plane, tmp_path: Path
) -> None:
    viewer = await user_of(plane, tmp_path, "vera", "butler-ipam-viewer")
    assert (await site.create("TenantCluster", "a", SPEC, namespace="team")).is_success
    status = {"status": {"network": {"ranges": [RANGE]}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    written = await admin.patch(f"{PATH}/status", json=status, headers=headers)
    assert written.is_success, written.text
    without_terminal = await release(viewer)
    assert without_terminal.code == 2
    assert "there is no terminal to ask on; pass --yes to go on" in without_terminal.err
    for text in ("butler-system/team-a-lb", "10.40.0.0-10.40.0.7", "now", "default/web"):
        assert text in without_terminal.out
    refused = await release(viewer, "--yes")
    assert refused.code == 1
    assert (
        "you lack the right to patch TenantCluster team/a: let an administrator bind ClusterRole"
        " butler-ipam-editor in namespace team." in refused.errors[-1]
    )
    assert names.ANNOTATION_RELEASE_ANYWAY not in await annotations(admin)


async def test_a_tenant_that_changed_since_it_was_shown_is_left_as_it_is(
    site: Site, admin: httpx.AsyncClient, plane: Plane, tmp_path: Path
) -> None:
    assert (await site.create("TenantCluster", "a", SPEC, namespace="team")).is_success
    kubeconfig = plane.write_kubeconfig(tmp_path / "admin")
    async with connected(kubeconfig, None, user_agent="test") as transport:
        client = Client(transport)
        shown = await client.get(TENANT_CLUSTER, Key("team", "a"))
        headers = {"Content-Type": "application/merge-patch+json"}
        change = {"metadata": {"annotations": {"team.example/note": "x"}}}
        assert (await admin.patch(PATH, json=change, headers=headers)).is_success
        with pytest.raises(Problem, match="changed since it was shown; run the command again"):
            await _annotate(client, shown)
    assert names.ANNOTATION_RELEASE_ANYWAY not in await annotations(admin)
