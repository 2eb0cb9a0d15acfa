"""A backup with all integrations, saved and restored by the lines of the operator's guide.

The first holder of an address of each platform is deleted before the backup. So the lowest address
is free, and an object whose address is not restored would get the lowest address.
"""

import json
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from manifests import rendering
from reconcilers.api import crd
from tests.manifests.clusters import MANIFESTS, Cluster, run_empty_cluster, write_manifests
from tests.manifests.guide import NOT_TYPED, list_copied_lines, type_line
from tests.manifests.test_running import read_ranges, wait_until_allocated
from tests.polling import until
from tests.reconcilers.cli.commands import ROOT, RunningCommand, start

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEFINITIONS = [f"crd/{kind.crd_name}" for kind in crd.KINDS]
PORTS = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-port=0")
INTEGRATIONS = "--integration=clusterapi,kubermatic,vitistack"
DATA = ROOT / "tests/data"
DEFINITION_FILES = (
    DATA / "clusterapi/crds.yaml",
    *sorted((MANIFESTS / "clusterapi-crds").glob("ipam*.yaml")),
    DATA / "kubermatic/crds.yaml",
    DATA / "vitistack/crds.yaml",
)
IPAM = "ipam.cluster.x-k8s.io"
HOLDER_PATHS = (
    f"/apis/{IPAM}/v1beta2/ipaddresses",
    "/apis/kubermatic.k8c.io/v1/ipamallocations",
    "/apis/vitistack.io/v1alpha2/ipallocations",
)
"""The collections of the platforms' kinds whose objects hold addresses."""
Json = dict[str, Any]
NETWORK: Json = {
    "apiVersion": "vitistack.io/v1alpha2",
    "kind": "NetworkNamespace",
    "metadata": {"name": "prod-net", "namespace": "default"},
    "spec": {
        "ipAllocation": {
            "type": "static",
            "static": {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": "10.0.2.1", "vlanId": 100},
        }
    },
}


def list_machine_names(count: int, first: int = 0) -> list[str]:
    """Return the names m`first` to m`count - 1`, for machines and for clusters."""
    return [f"m{number}" for number in range(first, count)]


def build_kkp_clusters(*clusters: str) -> str:
    """Return the manifests of KKP's Clusters with these names, and of their namespaces."""
    objects: list[Json] = []
    for name in clusters:
        namespace = f"cluster-{name}"
        objects += [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {
                "apiVersion": "kubermatic.k8c.io/v1",
                "kind": "Cluster",
                "metadata": {"name": name},
                "spec": {"cloud": {"dc": "example-east", "providerName": "fake"}},
                "status": {"namespaceName": namespace},
            },
        ]
    return write_manifests(*objects)


async def create_kkp_clusters(cluster: Cluster, *clusters: str) -> None:
    """Create KKP's Clusters with these names, their namespaces and statuses."""
    await cluster.kubectl("create", "-f", "-", stdin=build_kkp_clusters(*clusters))
    for name in clusters:
        status = json.dumps({"status": {"namespaceName": f"cluster-{name}"}})
        patch = ("--subresource=status", "--type=merge", "-p", status)
        await cluster.kubectl("patch", "clusters.kubermatic.k8c.io", name, *patch)


def build_machine_requests(name: str) -> list[Json]:
    """Return a machine's IPAddressClaim, and its NetworkConfiguration of vitistack."""
    return [
        {
            "apiVersion": f"{IPAM}/v1beta2",
            "kind": "IPAddressClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"poolRef": {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": "machines"}},
        },
        {
            "apiVersion": "vitistack.io/v1alpha1",
            "kind": "NetworkConfiguration",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "name": name,
                "networkNamespaceName": "prod-net",
                "networkInterfaces": [{"name": "eth0", "macAddress": "02:00:00:00:00:01"}],
            },
        },
    ]


async def install_platform_definitions(cluster: Cluster) -> None:
    """Install the definitions of the platforms."""
    for path in DEFINITION_FILES:
        await cluster.apply("-f", path)
    await cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")


async def create_platform_objects(cluster: Cluster) -> None:
    """Create pools of all platforms, and three requests for addresses of each platform."""
    await create_kkp_clusters(cluster, *list_machine_names(3))
    for name in ("clusterapi/pools.yaml", "kubermatic/pools.yaml"):
        await cluster.apply("-f", ROOT / "examples" / name)
    # The default grace period would keep the address of a deleted claim in use for a minute.
    at_once = ("--type=merge", "-p", '{"spec":{"addressReuseGracePeriodSeconds":0}}')
    await cluster.kubectl("patch", "inclusterippools", "machines", *at_once)
    await cluster.kubectl("create", "-f", "-", stdin=write_manifests(NETWORK))
    status = ("--subresource=status", "--type=merge", "-p")
    ready = '{"status":{"provisioningPhase":"Ready"}}'
    await cluster.kubectl("patch", "networknamespaces", "prod-net", *status, ready)
    machines = [body for name in list_machine_names(3) for body in build_machine_requests(name)]
    await cluster.kubectl("create", "-f", "-", stdin=write_manifests(*machines))


async def delete_first_holders(cluster: Cluster) -> None:
    """Delete the first request of each platform, and its objects that hold addresses."""
    [name] = list_machine_names(1)
    await cluster.kubectl("delete", "ipaddressclaims,networkconfigurations", name)
    await cluster.kubectl("delete", "clusters.kubermatic.k8c.io", name)
    # No garbage collector runs here.
    await cluster.kubectl("delete", "ipallocations.vitistack.io", f"{name}-eth0")
    await cluster.kubectl("delete", "ipamallocations", "metallb", "-n", f"cluster-{name}")


def read_held_address(body: Json) -> str:
    """Return the addresses that an object of a platform holds as text; empty for none."""
    spec, status = body["spec"], body.get("status", {})
    return str(spec.get("address") or spec.get("addresses") or status.get("address") or "")


async def read_held_addresses(cluster: Cluster) -> Mapping[str, str]:
    """Return the addresses of each platform's objects, by plural, namespace and name."""
    by_place = {}
    for path in HOLDER_PATHS:
        for body in (await cluster.read(path))["items"]:
            meta = body["metadata"]
            place = f"{path.rpartition('/')[2]} {meta['namespace']}/{meta['name']}"
            by_place[place] = read_held_address(body)
    return by_place


async def read_owner_uids(cluster: Cluster) -> set[str]:
    """Return the uids of all owners of the platforms' objects."""
    lists = [(await cluster.read(path))["items"] for path in HOLDER_PATHS]
    bodies = [body for items in lists for body in items]
    return {
        owner["uid"] for body in bodies for owner in body["metadata"].get("ownerReferences", [])
    }


async def read_completeness(cluster: Cluster) -> Mapping[str, bool]:
    """Return whether each platform's object has addresses and an owner, by plural and name."""
    by_place = {}
    for path in HOLDER_PATHS:
        for body in (await cluster.read(path))["items"]:
            meta = body["metadata"]
            place = f"{path.rpartition('/')[2]} {meta['namespace']}/{meta['name']}"
            by_place[place] = bool(read_held_address(body) and meta.get("ownerReferences"))
    return by_place


async def wait_until_complete(cluster: Cluster, count: int) -> None:
    """Wait until `count` objects of the platforms exist, each with addresses and an owner."""

    def is_complete(completeness_by_place: Mapping[str, bool]) -> bool:
        return len(completeness_by_place) == count and all(completeness_by_place.values())

    await until(partial(read_completeness, cluster), is_complete)


async def wait_until_established(cluster: Cluster) -> None:
    """Wait until our definitions are established."""
    await cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *DEFINITIONS)


def run_controllers(cluster: Cluster) -> Any:
    """Run the controllers with all integrations, as a context manager."""
    return start("run", f"--kubeconfig={cluster.config}", INTEGRATIONS, *PORTS)


async def stop_cleanly(running: RunningCommand) -> None:
    """Stop the controllers, and check that they exit with status 0."""
    assert await running.stop() == 0


async def test_a_backup_is_saved_and_restored_into_a_new_cluster_by_the_lines_of_the_guide(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.require_real("the lines scale a Deployment")
    if shutil.which("jq") is None:
        pytest.skip("no jq on this machine; the line that makes a restore of a backup needs it")
    guide_lines = [
        line for line in list_copied_lines("backup-and-restore") if line not in NOT_TYPED
    ]
    restore_index = next(
        at for at, line in enumerate(guide_lines) if line.startswith("butler-ipam plan")
    )
    await cluster.apply("-k", MANIFESTS / "crds")
    await wait_until_established(cluster)
    await install_platform_definitions(cluster)
    await cluster.kubectl("apply", "--server-side", "-f", MANIFESTS / "samples")
    await create_platform_objects(cluster)
    async with run_controllers(cluster) as running:
        held_ranges = await wait_until_allocated(cluster)
        await wait_until_complete(cluster, 9)
        await delete_first_holders(cluster)
        await wait_until_complete(cluster, 6)
        await stop_cleanly(running)
    before, stale = await read_held_addresses(cluster), await read_owner_uids(cluster)
    await cluster.apply("-f", rendering.INSTALL)
    for line in guide_lines[:restore_index]:
        await type_line(cluster, tmp_path, line)
    folder = tmp_path / "new"
    folder.mkdir()
    async with run_empty_cluster("asked", folder) as new_cluster:
        for line in guide_lines[restore_index:]:
            if line.endswith("-f restore.json") and line.startswith("kubectl apply"):
                await create_kkp_clusters(new_cluster, *list_machine_names(3, first=1))
            await type_line(new_cluster, tmp_path, line)
            if "manifests/crds" in line:
                await wait_until_established(new_cluster)
                await install_platform_definitions(new_cluster)
        assert await read_owner_uids(new_cluster) == set()
        await new_cluster.kubectl(
            "create", "-f", "-", stdin=write_manifests(*build_machine_requests("new"))
        )
        async with run_controllers(new_cluster) as running:
            assert await wait_until_allocated(new_cluster) == held_ranges
            await wait_until_complete(new_cluster, 8)
            await stop_cleanly(running)
        assert await read_ranges(new_cluster) == held_ranges
        after = await read_held_addresses(new_cluster)
        assert {place: after[place] for place in before} == before
        assert len(set(after.values())) == len(after)
        assert not await read_owner_uids(new_cluster) & stale
