"""What Butler's objects hold is still there after a migration, after our writes, and back again.

A CRD that does not know a field prunes it with the next write of the object, by any client.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reconcilers.api import crd, names
from tests.manifests import butler
from tests.manifests.clusters import MANIFESTS, Cluster, write_manifests
from tests.polling import until
from tests.reconcilers.cli.commands import start

pytestmark = pytest.mark.asyncio(loop_scope="module")
Json = dict[str, Any]
PLURALS = ",".join(kind.plural for kind in crd.KINDS)
DEFINITIONS = [kind.crd_name for kind in crd.KINDS]
OURS = {
    "NetworkPool": {
        *("totalIPs", "allocatedIPs", "availableIPs", "allocationCount", "largestFreeBlock"),
        *("fragmentationPercent", "observedGeneration", "conditions"),
    },
    "IPAllocation": {"conditions", "observedGeneration"},
    "ProviderConfig": {
        *("conditions", "validated", "lastValidationTime", "ready", "lastProbeTime", "capacity"),
    },
    "TenantCluster": {
        *("conditions", "phase", "lastTransitionTime", "observedGeneration"),
        *("ipAllocationRef", "lbAllocationRef"),
    },
}
"""What our controllers write into a status; everything else in it is another writer's."""
LATER: Mapping[str, list[tuple[str, ...]]] = {
    "TenantCluster": [
        ("spec", "addons", "later"),
        ("spec", "addons", "cni", "later"),
        ("spec", "controlPlane", "later"),
        ("spec", "workers", "machineTemplate", "later"),
        ("spec", "infrastructureOverride", "proxmox", "later"),
        ("spec", "workspaces", "later"),
        ("spec", "managementPolicy", "later"),
        ("status", "later"),
        ("status", "observedState", "later"),
    ],
    "ProviderConfig": [("spec", "harvester", "later"), ("spec", "local", "later")],
}
"""Where another version of Butler may have fields that we do not know: what we do not read."""


def all_objects() -> list[Json]:
    return [obj for variant in range(butler.VARIANTS) for obj in butler.objects(variant)]


@cache
def keys() -> frozenset[tuple[str, str]]:
    """Return kind and name of each of them."""
    return frozenset((obj["kind"], obj["metadata"]["name"]) for obj in all_objects())


async def define(cluster: Cluster, *arguments: str | Path, stdin: str = "") -> None:
    """Write definitions over those that are there, and wait until they are served."""
    command = ("apply", "--server-side", "--force-conflicts", *arguments)
    await cluster.kubectl(*command, stdin=stdin)
    await cluster.wait_until_established(*DEFINITIONS)


async def until_replaced(cluster: Cluster, *, ours: bool) -> None:
    """Wait until the server goes by the definitions that were written last.

    A real one does a moment after it stored them. Ours alone has the category.
    """
    group = f"/apis/{names.API_VERSION}"
    await until(
        lambda: cluster.read(group),
        lambda objects: (
            any("butler" in resource.get("categories", ()) for resource in objects["resources"])
            is ours
        ),
    )
    path = f"{group}/namespaces/{butler.HOME}/networkpools?dryRun=All"
    expected = {
        "apiVersion": names.API_VERSION,
        "kind": "NetworkPool",
        "metadata": {"name": "x"},
        "spec": {"cidr": "10.0.0.0/33"},
    }
    await until(
        lambda: cluster.http.post(path, json=expected),
        lambda answer: answer.is_error is ours,
    )


async def every(cluster: Cluster) -> list[Json]:
    """Return all objects of our kinds."""
    paths = [f"/apis/{names.API_VERSION}/{kind.plural}" for kind in crd.KINDS]
    return [obj for path in paths for obj in (await cluster.read(path))["items"]]


async def read_objects(cluster: Cluster) -> dict[tuple[str, str], Json]:
    """Return the objects that the test made, by kind and name."""
    listed = await every(cluster)
    objects_by_name = {(obj["kind"], obj["metadata"]["name"]): obj for obj in listed}
    return {key: objects_by_name[key] for key in keys() if key in objects_by_name}


def managers(obj: Json) -> set[str]:
    return {entry["manager"] for entry in obj["metadata"]["managedFields"]}


def lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield each field of `before` that is not as it was in `after`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from lost(value, after.get(name), f"{path}.{name}")
    elif before != after:
        yield f"{path}: {before!r} became {after!r}"


def theirs(obj: Json) -> Json:
    """Return an object's spec and status without what our controllers write."""
    status = obj.get("status", {})
    kept = {name: value for name, value in status.items() if name not in OURS[obj["kind"]]}
    return {"spec": obj["spec"], "status": kept}


async def create(cluster: Cluster, objects: list[Json]) -> None:
    """Create objects with their statuses."""
    await cluster.kubectl("create", "-f", "-", stdin=write_manifests(*objects))
    replace = ("replace", "--subresource=status", "-f", "-")
    await cluster.kubectl(*replace, stdin=write_manifests(*objects))


@asynccontextmanager
async def butlers(cluster: Cluster) -> AsyncIterator[None]:
    """Have Butler's definitions in the cluster; take all away afterwards."""
    await define(cluster, "-f", "-", stdin=write_manifests(*butler.definitions()))
    try:
        yield
    finally:
        # No controller is left that would take finalizers off.
        listed = await every(cluster)
        for obj in listed:
            obj["metadata"]["finalizers"] = []
        if listed:
            await cluster.kubectl("replace", "-f", "-", stdin=write_manifests(*listed))
        await cluster.undefine(*DEFINITIONS)


async def test_every_field_of_butlers_survives_our_crds_our_writes_and_the_migration_back(
    cluster: Cluster,
) -> None:
    async with butlers(cluster):
        await create(cluster, all_objects())
        before = await read_objects(cluster)
        assert len(before) == len(all_objects())
        for created in all_objects():
            obj = before[created["kind"], created["metadata"]["name"]]
            assert list(lost(theirs(created), obj)) == [], "Butler's own definitions prune nothing"

        await define(cluster, "-k", MANIFESTS / "crds")
        await until_replaced(cluster, ours=True)
        await written_by_the_controller(cluster)
        await cluster.kubectl("annotate", PLURALS, "-A", "--all", "touched=yes")
        assert await differences(cluster, before) == []

        await define(cluster, "-f", "-", stdin=write_manifests(*butler.definitions()))
        await until_replaced(cluster, ours=False)
        await cluster.kubectl("annotate", PLURALS, "-A", "--all", "touched=again", "--overwrite")
        assert await differences(cluster, before) == []


async def written_by_the_controller(cluster: Cluster) -> None:
    """Run the controller until it has written each of the objects."""
    ports = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-port=0")
    async with start("run", f"--kubeconfig={cluster.config}", *ports) as running:
        await until(
            lambda: read_objects(cluster),
            lambda stored: all("butler-ipam" in managers(obj) for obj in stored.values()),
        )
        assert await running.stop() == 0
    assert '"level":"error"' not in running.complained, running.complained


async def differences(cluster: Cluster, before: dict[tuple[str, str], Json]) -> list[str]:
    """Return each field of others that is not as it was."""
    after = await read_objects(cluster)
    assert after.keys() == before.keys()
    return [
        f"{kind} {name}{field}"
        for (kind, name), obj in before.items()
        for field in lost(theirs(obj), after[kind, name])
    ]


async def test_what_another_version_of_butler_has_in_parts_that_we_do_not_read_is_kept(
    cluster: Cluster,
) -> None:
    await define(cluster, "-k", MANIFESTS / "crds")
    await until_replaced(cluster, ours=True)
    objects = [obj for obj in butler.objects(0) if obj["kind"] in LATER]
    for obj in objects:
        for path in LATER[obj["kind"]]:
            part: Any = obj
            for name in path[:-1]:
                part = part[name]
            part[path[-1]] = {"of": ["another", "version"]}
    try:
        await create(cluster, objects)
        objects_by_name = await read_objects(cluster)
        kept = [
            list(lost(theirs(obj), objects_by_name[obj["kind"], "fields-1"])) for obj in objects
        ]
        assert kept == [[] for _ in objects]
    finally:
        await cluster.undefine(*DEFINITIONS)
