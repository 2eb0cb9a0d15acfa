"""A backup with all integrations on, saved and restored by the lines of the operator's guide.

In the cluster of before, each platform's first holder of an address is gone. So the lowest address
is free, and an object whose address was not restored would get that one.
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
from tests.manifests.clusters import MANIFESTS, Cluster, empty_cluster, write_manifests
from tests.manifests.guide import NOT_TYPED, blocks, type_line
from tests.manifests.test_running import ranges, wait_until_allocated
from tests.polling import until
from tests.reconcilers.cli.commands import ROOT, Running, start

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEFINITIONS = [f"crd/{kind.crd_name}" for kind in crd.KINDS]
PORTS = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-port=0")
INTEGRATIONS = "--integration=clusterapi,kubermatic,vitistack"
DATA = ROOT / "tests/data"
PLATFORMS = (
    DATA / "clusterapi/crds.yaml",
    *sorted((MANIFESTS / "clusterapi-crds").glob("ipam*.yaml")),
    DATA / "kubermatic/crds.yaml",
    DATA / "vitistack/crds.yaml",
)
IPAM = "ipam.cluster.x-k8s.io"
HOLDERS = (
    f"/apis/{IPAM}/v1beta2/ipaddresses",
    "/apis/kubermatic.k8c.io/v1/ipamallocations",
    "/apis/vitistack.io/v1alpha2/ipallocations",
)
"""The lists of objects that hold addresses of the platforms."""
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


def names(count: int, first: int = 0) -> list[str]:
    """Return the names of machines or of clusters."""
    return [f"m{number}" for number in range(first, count)]


def kkp_clusters(*clusters: str) -> str:
    """Return Clusters of KKP with their namespaces, as KKP keeps them."""
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


async def have_kkp_clusters(cluster: Cluster, *clusters: str) -> None:
    """Create Clusters of KKP with their namespaces."""
    await cluster.kubectl("create", "-f", "-", stdin=kkp_clusters(*clusters))
    for name in clusters:
        status = json.dumps({"status": {"namespaceName": f"cluster-{name}"}})
        patch = ("--subresource=status", "--type=merge", "-p", status)
        await cluster.kubectl("patch", "clusters.kubermatic.k8c.io", name, *patch)


def machine(name: str) -> list[Json]:
    """Return the requests of a machine: Cluster API's claim, and vitistack's object."""
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


async def define(cluster: Cluster) -> None:
    """Install the definitions of the platforms."""
    for path in PLATFORMS:
        await cluster.apply("-f", path)
    await cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")


async def populate(cluster: Cluster) -> None:
    """Have pools of all platforms, and three holders of addresses of each."""
    await have_kkp_clusters(cluster, *names(3))
    for name in ("clusterapi/pools.yaml", "kubermatic/pools.yaml"):
        await cluster.apply("-f", ROOT / "examples" / name)
    # Otherwise the address of a deleted claim rests for a minute.
    at_once = ("--type=merge", "-p", '{"spec":{"addressReuseGracePeriodSeconds":0}}')
    await cluster.kubectl("patch", "inclusterippools", "machines", *at_once)
    await cluster.kubectl("create", "-f", "-", stdin=write_manifests(NETWORK))
    status = ("--subresource=status", "--type=merge", "-p")
    ready = '{"status":{"provisioningPhase":"Ready"}}'
    await cluster.kubectl("patch", "networknamespaces", "prod-net", *status, ready)
    machines = [body for name in names(3) for body in machine(name)]
    await cluster.kubectl("create", "-f", "-", stdin=write_manifests(*machines))


async def lose_the_first(cluster: Cluster) -> None:
    """Delete the first holder of each platform, and wait until its addresses are released."""
    [name] = names(1)
    await cluster.kubectl("delete", "ipaddressclaims,networkconfigurations", name)
    await cluster.kubectl("delete", "clusters.kubermatic.k8c.io", name)
    # No garbage collector runs here.
    await cluster.kubectl("delete", "ipallocations.vitistack.io", f"{name}-eth0")
    await cluster.kubectl("delete", "ipamallocations", "metallb", "-n", f"cluster-{name}")


def address_of(body: Json) -> str:
    """Return the addresses that an object of a platform holds, as text."""
    spec, status = body["spec"], body.get("status", {})
    return str(spec.get("address") or spec.get("addresses") or status.get("address") or "")


async def holders(cluster: Cluster) -> Mapping[str, str]:
    """Return the addresses of all platforms' objects, by kind, namespace and name."""
    commands = {}
    for path in HOLDERS:
        for body in (await cluster.read(path))["items"]:
            meta = body["metadata"]
            place = f"{path.rpartition('/')[2]} {meta['namespace']}/{meta['name']}"
            commands[place] = address_of(body)
    return commands


async def owners(cluster: Cluster) -> set[str]:
    """Return the uids of owners that the platforms' objects name."""
    lists = [(await cluster.read(path))["items"] for path in HOLDERS]
    bodies = [body for items in lists for body in items]
    return {
        owner["uid"] for body in bodies for owner in body["metadata"].get("ownerReferences", [])
    }


async def find_owned_objects(cluster: Cluster) -> Mapping[str, bool]:
    """Return by place whether an object of a platform has addresses and an owner."""
    commands = {}
    for path in HOLDERS:
        for body in (await cluster.read(path))["items"]:
            meta = body["metadata"]
            place = f"{path.rpartition('/')[2]} {meta['namespace']}/{meta['name']}"
            commands[place] = bool(address_of(body) and meta.get("ownerReferences"))
    return commands


async def until_owned(cluster: Cluster, count: int) -> None:
    """Wait until so many objects of the platforms exist, each with addresses and an owner."""

    def is_complete(sections: Mapping[str, bool]) -> bool:
        return len(sections) == count and all(sections.values())

    await until(partial(find_owned_objects, cluster), is_complete)


async def wait_until_established(cluster: Cluster) -> None:
    await cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *DEFINITIONS)


def controllers(cluster: Cluster) -> Any:
    """Run the controllers with all integrations."""
    return start("run", f"--kubeconfig={cluster.config}", INTEGRATIONS, *PORTS)


async def stop(running: Running) -> None:
    assert await running.stop() == 0


async def test_a_backup_is_saved_and_restored_into_a_new_cluster_by_the_lines_of_the_guide(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.require_real("the lines scale a Deployment")
    if shutil.which("jq") is None:
        pytest.skip("no jq on this machine; the line that makes a restore of a backup needs it")
    typing = [line for line in blocks("backup-and-restore") if line not in NOT_TYPED]
    new = next(at for at, line in enumerate(typing) if line.startswith("butler-ipam plan"))
    await cluster.apply("-k", MANIFESTS / "crds")
    await wait_until_established(cluster)
    await define(cluster)
    await cluster.kubectl("apply", "--server-side", "-f", MANIFESTS / "samples")
    await populate(cluster)
    async with controllers(cluster) as running:
        held_ranges = await wait_until_allocated(cluster)
        await until_owned(cluster, 9)
        await lose_the_first(cluster)
        await until_owned(cluster, 6)
        await stop(running)
    before, stale = await holders(cluster), await owners(cluster)
    await cluster.apply("-f", rendering.INSTALL)
    for line in typing[:new]:
        await type_line(cluster, tmp_path, line)
    folder = tmp_path / "new"
    folder.mkdir()
    async with empty_cluster("asked", folder) as other:
        for line in typing[new:]:
            if line.endswith("-f restore.json") and line.startswith("kubectl apply"):
                await have_kkp_clusters(other, *names(3, first=1))
            await type_line(other, tmp_path, line)
            if "manifests/crds" in line:
                await wait_until_established(other)
                await define(other)
        assert await owners(other) == set()
        await other.kubectl("create", "-f", "-", stdin=write_manifests(*machine("new")))
        async with controllers(other) as running:
            assert await wait_until_allocated(other) == held_ranges
            await until_owned(other, 8)
            await stop(running)
        assert await ranges(other) == held_ranges
        after = await holders(other)
        assert {place: after[place] for place in before} == before
        assert len(set(after.values())) == len(after)
        assert not await owners(other) & stale
