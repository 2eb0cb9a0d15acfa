"""Butler's objects keep all fields in a migration to our CRDs, in our writes, and on the way back.

The API server prunes a field that the CRD lacks at the next write of the object by any client.
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
OUR_STATUS_FIELDS = {
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
"""The fields of a status that our controllers write; Butler writes all others."""
UNREAD_FIELDS: Mapping[str, list[tuple[str, ...]]] = {
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
"""Paths of fields that no version of Butler has yet, in objects that our controllers do not read.

A later version of Butler may have such fields.
"""


def build_all_objects() -> list[Json]:
    """Return Butler's objects in all variants."""
    return [obj for variant in range(butler.VARIANTS) for obj in butler.build_objects(variant)]


@cache
def list_keys() -> frozenset[tuple[str, str]]:
    """Return the kind and the name of each object that the tests create."""
    return frozenset((obj["kind"], obj["metadata"]["name"]) for obj in build_all_objects())


async def apply_definitions(cluster: Cluster, *arguments: str | Path, stdin: str = "") -> None:
    """Apply definitions of our four kinds, and wait until they are served.

    Args:
        arguments: the flags of kubectl that name the definitions.
        stdin: the definitions, if the arguments read them from there.
    """
    command = ("apply", "--server-side", "--force-conflicts", *arguments)
    await cluster.kubectl(*command, stdin=stdin)
    await cluster.wait_until_established(*DEFINITIONS)


async def wait_until_replaced(cluster: Cluster, *, ours: bool) -> None:
    """Wait until the server uses the definitions that were applied last.

    kube-apiserver does so a moment after it has stored them.

    Args:
        ours: whether our definitions were applied last, or Butler's. Ours have a category, and
            they reject an invalid CIDR.
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
    invalid_pool = {
        "apiVersion": names.API_VERSION,
        "kind": "NetworkPool",
        "metadata": {"name": "x"},
        "spec": {"cidr": "10.0.0.0/33"},
    }
    await until(
        lambda: cluster.http.post(path, json=invalid_pool),
        lambda answer: answer.is_error is ours,
    )


async def list_all_objects(cluster: Cluster) -> list[Json]:
    """Return all objects of our kinds."""
    paths = [f"/apis/{names.API_VERSION}/{kind.plural}" for kind in crd.KINDS]
    return [obj for path in paths for obj in (await cluster.read(path))["items"]]


async def read_test_objects(cluster: Cluster) -> dict[tuple[str, str], Json]:
    """Return the stored objects of `build_all_objects`, by kind and name."""
    listed = await list_all_objects(cluster)
    objects_by_name = {(obj["kind"], obj["metadata"]["name"]): obj for obj in listed}
    return {key: objects_by_name[key] for key in list_keys() if key in objects_by_name}


def list_managers(obj: Json) -> set[str]:
    """Return the field managers of an object."""
    return {entry["manager"] for entry in obj["metadata"]["managedFields"]}


def find_changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield a message for each field of `before` that `after` lacks or has with another value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from find_changes(value, after.get(name), f"{path}.{name}")
    elif before != after:
        yield f"{path}: {before!r} became {after!r}"


def strip_our_status(obj: Json) -> Json:
    """Return an object's spec, and its status without the fields that our controllers write."""
    status = obj.get("status", {})
    kept = {
        name: value for name, value in status.items() if name not in OUR_STATUS_FIELDS[obj["kind"]]
    }
    return {"spec": obj["spec"], "status": kept}


async def create_objects(cluster: Cluster, objects: list[Json]) -> None:
    """Create objects, and write their statuses."""
    await cluster.kubectl("create", "-f", "-", stdin=write_manifests(*objects))
    replace = ("replace", "--subresource=status", "-f", "-")
    await cluster.kubectl(*replace, stdin=write_manifests(*objects))


@asynccontextmanager
async def install_butlers_definitions(cluster: Cluster) -> AsyncIterator[None]:
    """Install Butler's definitions; at the end delete our kinds with all their objects."""
    await apply_definitions(cluster, "-f", "-", stdin=write_manifests(*butler.build_definitions()))
    try:
        yield
    finally:
        # No controller runs any more that would remove finalizers.
        listed = await list_all_objects(cluster)
        for obj in listed:
            obj["metadata"]["finalizers"] = []
        if listed:
            await cluster.kubectl("replace", "-f", "-", stdin=write_manifests(*listed))
        await cluster.undefine(*DEFINITIONS)


async def test_every_field_of_butlers_survives_our_crds_our_writes_and_the_migration_back(
    cluster: Cluster,
) -> None:
    async with install_butlers_definitions(cluster):
        await create_objects(cluster, build_all_objects())
        before = await read_test_objects(cluster)
        assert len(before) == len(build_all_objects())
        for created in build_all_objects():
            obj = before[created["kind"], created["metadata"]["name"]]
            assert list(find_changes(strip_our_status(created), obj)) == [], (
                "Butler's own definitions prune nothing"
            )

        await apply_definitions(cluster, "-k", MANIFESTS / "crds")
        await wait_until_replaced(cluster, ours=True)
        await run_until_all_written(cluster)
        await cluster.kubectl("annotate", PLURALS, "-A", "--all", "touched=yes")
        assert await find_changed_fields(cluster, before) == []

        await apply_definitions(
            cluster, "-f", "-", stdin=write_manifests(*butler.build_definitions())
        )
        await wait_until_replaced(cluster, ours=False)
        await cluster.kubectl("annotate", PLURALS, "-A", "--all", "touched=again", "--overwrite")
        assert await find_changed_fields(cluster, before) == []


async def run_until_all_written(cluster: Cluster) -> None:
    """Run our controller until it has written each test object, then stop it."""
    ports = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-port=0")
    async with start("run", f"--kubeconfig={cluster.config}", *ports) as running:
        await until(
            lambda: read_test_objects(cluster),
            lambda stored: all("butler-ipam" in list_managers(obj) for obj in stored.values()),
        )
        assert await running.stop() == 0
    assert '"level":"error"' not in running.stderr, running.stderr


async def find_changed_fields(cluster: Cluster, before: dict[tuple[str, str], Json]) -> list[str]:
    """Return each field of Butler that changed.

    Args:
        before: the objects before, by kind and name.
    """
    after = await read_test_objects(cluster)
    assert after.keys() == before.keys()
    return [
        f"{kind} {name}{field}"
        for (kind, name), obj in before.items()
        for field in find_changes(strip_our_status(obj), after[kind, name])
    ]


async def test_fields_of_a_later_version_of_butler_in_parts_that_we_do_not_read_are_kept(
    cluster: Cluster,
) -> None:
    await apply_definitions(cluster, "-k", MANIFESTS / "crds")
    await wait_until_replaced(cluster, ours=True)
    objects = [obj for obj in butler.build_objects(0) if obj["kind"] in UNREAD_FIELDS]
    for obj in objects:
        for path in UNREAD_FIELDS[obj["kind"]]:
            part: Any = obj
            for name in path[:-1]:
                part = part[name]
            part[path[-1]] = {"of": ["another", "version"]}
    try:
        await create_objects(cluster, objects)
        objects_by_name = await read_test_objects(cluster)
        kept = [
            list(find_changes(strip_our_status(obj), objects_by_name[obj["kind"], "fields-1"]))
            for obj in objects
        ]
        assert kept == [[] for _ in objects]
    finally:
        await cluster.undefine(*DEFINITIONS)
