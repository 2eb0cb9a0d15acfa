"""`clusterctl move` of a Cluster with a pool of metal3, there and back: the same addresses."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconcilers.integrations.metal3.api import (
    ADDRESS_FINALIZER,
    CLAIM_FINALIZER,
    CONTRACT_ADDRESS_FINALIZER,
    CONTRACT_CLAIM_FINALIZER,
    GROUP,
    POOL_FINALIZER,
)
from tests.manifests.clusterctl import METAL3_VERSION, Clusterctl
from tests.manifests.clusters import Cluster, run_empty_cluster, write_manifests
from tests.manifests.test_clusterctl import IPAM, NAMESPACE, PORTS, create_object, list_objects
from tests.polling import until
from tests.reconcilers.cli.commands import start
from tests.yamls import read_all_yaml

pytestmark = pytest.mark.slow
DATA = Path(__file__).parents[1] / "data"
CLUSTERS = "clusters.cluster.x-k8s.io"
POOLS = f"ippools.{GROUP}"
CLAIMS = (f"ipclaims.{GROUP}", f"ipaddressclaims.{IPAM}")
ADDRESSES = (f"ipaddresses.{GROUP}", f"ipaddresses.{IPAM}")
FINALIZERS = {
    POOLS: POOL_FINALIZER,
    **dict(zip(CLAIMS, (CLAIM_FINALIZER, CONTRACT_CLAIM_FINALIZER), strict=True)),
    **dict(zip(ADDRESSES, (ADDRESS_FINALIZER, CONTRACT_ADDRESS_FINALIZER), strict=True)),
}
NAMES = ("a", "b", "c", "d")
Json = dict[str, Any]


def write_provider_manifests(namespace: str, kinds: Path) -> str:
    """Return a provider's manifests: its controller's namespace and its definitions.

    Args:
        namespace: the name of the namespace.
        kinds: the file of the definitions.
    """
    namespace_body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    return write_manifests(namespace_body, *read_all_yaml(kinds.read_text(encoding="utf-8")))


@pytest.fixture
def clusterctl(tmp_path: Path) -> Clusterctl:
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    core = write_provider_manifests("capi-system", DATA / "clusterapi/crds.yaml")
    return Clusterctl(
        tmp_path, core, write_provider_manifests("metal3-ipam-system", DATA / "metal3/crds.yaml")
    )


@asynccontextmanager
async def run_management_cluster(clusterctl: Clusterctl, folder: Path) -> AsyncIterator[Cluster]:
    """Run a management cluster with metal3's definitions, and our controller in metal3's place."""
    async with run_empty_cluster("asked", folder) as cluster:
        cluster.require_real("clusterctl is held against nothing else")
        await clusterctl.init(cluster, ipam=f"metal3:{METAL3_VERSION}")
        await cluster.apply("-k", "manifests/crds")
        await cluster.kubectl("create", "namespace", NAMESPACE)
        flags = ("--integration=metal3", f"--kubeconfig={cluster.config}", *PORTS)
        async with start("run", *flags) as running:
            yield cluster
            assert await running.stop() == 0


async def create_ready_cluster(cluster: Cluster) -> Json:
    """Create the Cluster `lab` with the status of a Cluster that is ready; return it."""
    created = await create_object(
        cluster, "cluster.x-k8s.io/v1beta2", kind="Cluster", name="lab", spec={"paused": False}
    )
    await write_ready_status(cluster)
    return created


async def write_ready_status(cluster: Cluster) -> None:
    """Write the status of a ready Cluster as the core does; `clusterctl move` does not copy it."""
    ready = {
        "type": "ControlPlaneInitialized",
        "status": "True",
        "reason": "Initialized",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"initialization": {"infrastructureProvisioned": True}, "conditions": [ready]}
    patch = ("patch", CLUSTERS, "lab", "-n", NAMESPACE, "--subresource=status", "--type=merge")
    await cluster.kubectl(*patch, f"--patch={json.dumps({'status': status})}")


async def create_pool_with_claims(cluster: Cluster, owner: Json) -> None:
    """Create the IPPool `lab`, and claims of both kinds with the names NAMES.

    Args:
        cluster: where the objects are created.
        owner: the owner of the claims.
    """
    pool = {
        "clusterName": "lab",
        "namePrefix": "lab",
        "pools": [{"start": "10.0.0.10", "end": "10.0.0.19"}, {"subnet": "fd00::/120"}],
        "preAllocations": {"c": "fd00::5"},
        "prefix": 24,
        "gateway": "10.0.0.1",
    }
    await create_object(cluster, f"{GROUP}/v1alpha1", kind="IPPool", name="lab", spec=pool)
    reference = {"apiGroup": GROUP, "kind": "IPPool", "name": "lab"}
    for number, name in enumerate(NAMES):
        if number % 2 == 0:
            spec: Json = {"pool": {"name": "lab", "namespace": NAMESPACE}}
            version, kind = f"{GROUP}/v1alpha1", "IPClaim"
        else:
            spec = {"poolRef": reference, "clusterName": "lab"}
            version, kind = f"{IPAM}/v1beta2", "IPAddressClaim"
        await create_object(cluster, version, kind, name, spec, owner, finalizers={})


def _read_address_name(claim: Json) -> str:
    """Return the name of the IPAddress in the status of a claim of either kind; or nothing."""
    status = claim.get("status") or {}
    reference = status.get("address") or status.get("addressRef") or {}
    return str(reference.get("name", ""))


async def wait_until_served(cluster: Cluster) -> dict[str, str]:
    """Return the address of each claim by its name, once each names an IPAddress."""

    async def look() -> dict[str, str]:
        objects = {}
        for claims, addresses in zip(CLAIMS, ADDRESSES, strict=True):
            address_by_claim = {
                body["metadata"]["name"]: body["spec"]["address"]
                for body in await list_objects(cluster, addresses)
            }
            for claim in await list_objects(cluster, claims):
                if name := _read_address_name(claim):
                    objects[claim["metadata"]["name"]] = address_by_claim.get(name, "")
        return objects

    return await until(
        look, lambda addresses: set(addresses) == set(NAMES) and all(addresses.values())
    )


async def check_objects(cluster: Cluster, address_by_claim: dict[str, str]) -> None:
    """Check the pool's indexes, and finalizers and owners of all objects.

    Args:
        cluster: the cluster that has the objects; owners have to have their uids there.
        address_by_claim: the expected address of each claim.
    """

    async def read_indexes() -> Json:
        [pool] = await list_objects(cluster, POOLS)
        return dict((pool.get("status") or {}).get("indexes") or {})

    await until(read_indexes, lambda indexes: indexes == address_by_claim)
    [pool] = await list_objects(cluster, POOLS)
    [owner] = pool["metadata"]["ownerReferences"]
    [lab] = await list_objects(cluster, CLUSTERS)
    assert owner["uid"] == lab["metadata"]["uid"]
    assert not lab["spec"].get("paused")
    for kind, finalizer in FINALIZERS.items():
        for body in await list_objects(cluster, kind):
            assert body["metadata"]["finalizers"] == [finalizer]
    for claims, addresses in zip(CLAIMS, ADDRESSES, strict=True):
        uids = {claim["metadata"]["uid"] for claim in await list_objects(cluster, claims)}
        bodies = await list_objects(cluster, addresses)
        assert len(bodies) == len(uids)
        for body in bodies:
            owners = {owner["uid"] for owner in body["metadata"]["ownerReferences"]}
            assert pool["metadata"]["uid"] in owners
            assert len(owners & uids) == 1


async def move(clusterctl: Clusterctl, source: Cluster, target: Cluster) -> None:
    """Move the objects by `clusterctl move`, and wait until the source has none of them."""
    flags = (f"--namespace={NAMESPACE}", f"--to-kubeconfig={target.config}")
    await clusterctl.run(source, "move", *flags)
    for kind in (CLUSTERS, *FINALIZERS):
        await until(partial(list_objects, source, kind), lambda objects: not objects)


async def test_addresses_are_the_same_after_a_move_and_after_the_move_back(
    clusterctl: Clusterctl, tmp_path: Path
) -> None:
    async with (
        run_management_cluster(clusterctl, tmp_path / "source") as source,
        run_management_cluster(clusterctl, tmp_path / "target") as target,
    ):
        await create_pool_with_claims(source, await create_ready_cluster(source))
        address_by_claim = await wait_until_served(source)
        assert address_by_claim["c"] == "fd00::5"
        await check_objects(source, address_by_claim)
        await move(clusterctl, source, target)
        assert await wait_until_served(target) == address_by_claim
        await check_objects(target, address_by_claim)
        await write_ready_status(target)
        await move(clusterctl, target, source)
        assert await wait_until_served(source) == address_by_claim
        await check_objects(source, address_by_claim)
