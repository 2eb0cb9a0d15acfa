"""Upgrade from the version before pools of two families, and downgrade, with its CRDs and objects.

tests/data/before_families has the CRDs of that version, and the objects that its controller
created from the samples on a real API server, without fields that a server adds. It is the last
version whose schema has one family only; there is no release yet.
"""

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from controller.clock import SystemClock
from controller.config import connect
from controller.manager import Manager
from controller.options import ManagerOptions
from envtest.plane import RunningControlPlane as Plane
from envtest.plane import read_crds
from reconcilers.api import names
from reconcilers.api.crd import build_crds
from reconcilers.configuration.settings import (
    OrphanSettings,
    PoolSettings,
    ProviderSettings,
    Settings,
    TenantSettings,
)
from reconcilers.wiring import assemble
from tests.polling import make_awaitable, until
from tests.servers import ASSETS

Json = dict[str, Any]
BEFORE = Path(__file__).parents[1] / "data" / "before_families"
PLURALS = {
    "Secret": "secrets",
    "ProviderConfig": "providerconfigs",
    "TenantCluster": "tenantclusters",
    "IPAllocation": "ipallocations",
    "NetworkPool": "networkpools",
}
"""The plurals of the recorded kinds; objects refer by uid or resourceVersion to earlier kinds."""
API = f"/apis/{names.API_VERSION}"
AS_CONTROLLER = {"fieldManager": names.FIELD_MANAGER}
MERGE = {"Content-Type": "application/merge-patch+json"}
SHORT_INTERVALS = Settings(
    pool=PoolSettings(resync=0.5, requeue_after_work=0.5),
    tenant=TenantSettings(
        requeue_waiting=0.5, requeue_not_ready=0.5, requeue_young=0.5, requeue_grown=0.5
    ),
    provider=ProviderSettings(resync=0.5, requeue_invalid=0.5),
    orphans=OrphanSettings(resync=0.5),
)
"""Each object is reconciled twice a second, also if it has not changed."""
REWORDED = {
    "no other pool hands out these addresses": "no other NetworkPool hands out these addresses",
    "(1 allocations)": "(1 allocation)",
    # Rounded to the nearest percent then, and down now.
    "2% (13/767 IPs)": "1% (13/767 IPs)",
    "17% (16/96 IPs)": "16% (16/96 IPs)",
    "3% (26/959 IPs)": "2% (26/959 IPs)",
    "3% (7/240 IPs)": "2% (7/240 IPs)",
}
"""Messages of that version, and their wording in this version, which would write them once."""
KINDS_WITHOUT_PASSES = {"Secret", "IPAllocation"}
"""Kinds whose objects have no passes: allocations are served by the passes of their pools."""
MIN_PASSES = 3
"""The average number of passes over each object after which nothing more should be written."""


def _read_recorded_objects() -> list[Json]:
    """Return the recorded objects, each after the objects that it refers to."""
    document: list[Json] = json.loads((BEFORE / "objects.json").read_text(encoding="utf-8"))
    return sorted(document, key=lambda obj: list(PLURALS).index(obj["kind"]))


def _make_collection_path(obj: Json) -> str:
    api = "/api/v1" if obj["kind"] == "Secret" else API
    return f"{api}/namespaces/{obj['metadata']['namespace']}/{PLURALS[obj['kind']]}"


async def _recreate_recorded_objects(http: httpx.AsyncClient) -> None:
    """Create the recorded objects on this server, with the field manager of the controller.

    The server assigns uids and resourceVersions of its own, so the references to the recorded ones
    are replaced: each uid, and a pool's `allocationsRevision`. It becomes the resourceVersion of
    the allocation that was created last. Messages are replaced by those of REWORDED.
    """
    recorded = _read_recorded_objects()
    for name in {obj["metadata"]["namespace"] for obj in recorded}:
        answer = await http.post("/api/v1/namespaces", json={"metadata": {"name": name}})
        assert answer.status_code in {201, 409}, answer.text
    uids: dict[str, str] = {}
    last_allocation_revision = "0"
    for obj in recorded:
        body_text = json.dumps(obj)
        for old, new in (uids | REWORDED).items():
            body_text = body_text.replace(old, new)
        body = json.loads(body_text)
        uid = body["metadata"].pop("uid", None)
        answer = await http.post(_make_collection_path(obj), params=AS_CONTROLLER, json=body)
        assert answer.status_code == 201, answer.text
        created = answer.json()
        if uid is not None:
            uids[uid] = created["metadata"]["uid"]
        if "status" not in body:
            continue
        if body["status"].get("allocationsRevision"):
            body["status"]["allocationsRevision"] = last_allocation_revision
        status_path = f"{_make_collection_path(obj)}/{obj['metadata']['name']}/status"
        answer = await http.put(
            status_path, params=AS_CONTROLLER, json=created | {"status": body["status"]}
        )
        assert answer.status_code == 200, answer.text
        if obj["kind"] == "IPAllocation":
            last_allocation_revision = answer.json()["metadata"]["resourceVersion"]


async def _read_stored_objects(http: httpx.AsyncClient) -> dict[str, str]:
    """Return the server's JSON text of each recorded object, by path, without NEW_FIELDS."""
    objects = {}
    for obj in _read_recorded_objects():
        path = f"{_make_collection_path(obj)}/{obj['metadata']['name']}"
        answer = await http.get(path)
        assert answer.status_code == 200, answer.text
        objects[path] = _drop_new_fields(answer.text)
    return objects


NEW_FIELDS = {
    "TenantCluster": {"network"},
    "NetworkPool": {"allocationsRevision", "assignments", "revisions", "journalOf"},
}
"""The fields of each kind's status that this version adds or removes.

A NetworkPool has another journal, so it is fenced once.
"""


def _drop_new_fields(content: str) -> str:
    """Return an object without the fields that this version adds to a status.

    Kinds without such fields come back as the very text that the server answered with.
    """
    body = json.loads(content)
    if body["kind"] not in NEW_FIELDS:
        return content
    for name in NEW_FIELDS[body["kind"]]:
        body["status"].pop(name, None)
    for name in ("resourceVersion", "managedFields"):
        body["metadata"].pop(name, None)
    return json.dumps(body)


def _count_passes_per_object(manager: Manager) -> Iterator[float]:
    """Yield the number of passes of each controller, divided by the objects of its kind."""
    kinds = [
        obj["kind"].lower()
        for obj in _read_recorded_objects()
        if obj["kind"] not in KINDS_WITHOUT_PASSES
    ]
    for kind in sorted(set(kinds)):
        total = sum(
            sample.value
            for family in manager.metrics.reconcile_total.collect()
            for sample in family.samples
            if sample.name.endswith("_total") and sample.labels["controller"] == kind
        )
        yield total / kinds.count(kind)


@asynccontextmanager
async def _run_controllers(plane: Plane, folder: Path) -> AsyncIterator[Manager]:
    """Run the controllers of this version."""
    transport = await connect(plane.write_kubeconfig(folder / "kubeconfig"))
    clock = SystemClock()
    manager = Manager(transport, clock=clock, options=ManagerOptions())
    clients = assemble(manager, clock, SHORT_INTERVALS)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        yield manager
        group.cancel_scope.cancel()
    await clients.aclose()
    await transport.aclose()


async def test_an_upgrade_and_a_downgrade_write_no_object_without_a_second_family(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await plane.install_crds(read_crds(BEFORE))
    await _recreate_recorded_objects(admin)
    before = await _read_stored_objects(admin)
    assert len(before) == len(_read_recorded_objects())
    await plane.install_crds(build_crds())
    async with _run_controllers(plane, tmp_path) as manager:
        await until(
            make_awaitable(lambda: min(_count_passes_per_object(manager))),
            lambda fewest_passes: fewest_passes >= MIN_PASSES,
        )
    assert await _read_stored_objects(admin) == before
    await plane.install_crds(read_crds(BEFORE))
    assert await _read_stored_objects(admin) == before


DUAL_STACK_STATUS: Json = {
    "phase": "Allocated",
    "startAddress": "10.40.0.0",
    "endAddress": "10.40.0.1",
    "families": [
        {"family": "IPv4", "startAddress": "10.40.0.0", "endAddress": "10.40.0.1"},
        {"family": "IPv6", "startAddress": "fd00::", "endAddress": "fd00::1"},
    ],
}


async def _create_dual_stack_allocation(http: httpx.AsyncClient) -> str:
    """Create an allocation that holds a range of each family; return its path."""
    spec = {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": "a", "namespace": "team"},
        "type": "loadbalancer",
        "ipFamilyPolicy": "RequireDualStack",
    }
    body = {"apiVersion": names.API_VERSION, "kind": "IPAllocation", "spec": spec}
    path = f"{API}/namespaces/default/ipallocations"
    answer = await http.post(path, json=body | {"metadata": {"name": "both"}})
    assert answer.status_code == 201, answer.text
    path = f"{path}/both"
    answer = await http.patch(f"{path}/status", headers=MERGE, json={"status": DUAL_STACK_STATUS})
    assert answer.status_code == 200, answer.text
    return path


async def test_second_ranges_reappear_if_no_object_is_written_between_downgrade_and_upgrade(
    plane: Plane, admin: httpx.AsyncClient
) -> None:
    if not os.environ.get(ASSETS):
        pytest.skip(
            f"needs {ASSETS}: the embedded server prunes stored objects, not objects that are read"
        )
    await plane.install_crds(build_crds())
    path = await _create_dual_stack_allocation(admin)
    stored = await _read_text(admin, path)
    assert "fd00::1" in stored
    await plane.install_crds(read_crds(BEFORE))
    spec_text = await until(lambda: _read_text(admin, path), lambda output: "fd00" not in output)
    assert "10.40.0.1" in spec_text
    await plane.install_crds(build_crds())
    await until(lambda: _read_text(admin, path), lambda output: output == stored)


async def test_a_write_under_the_older_crds_loses_the_second_range(
    plane: Plane, admin: httpx.AsyncClient
) -> None:
    await plane.install_crds(build_crds())
    path = await _create_dual_stack_allocation(admin)
    await plane.install_crds(read_crds(BEFORE))
    await until(lambda: _read_text(admin, path), lambda output: "fd00" not in output)
    note = {"metadata": {"annotations": {"note": "written under the older schema"}}}
    answer = await admin.patch(path, headers=MERGE, json=note)
    assert answer.status_code == 200, answer.text
    await plane.install_crds(build_crds())
    await until(lambda: _dry_run_status_write(admin, path), lambda output: "fd00" in output)
    assert "fd00" not in await _read_text(admin, path)


async def _read_text(http: httpx.AsyncClient, path: str) -> str:
    answer = await http.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


async def _dry_run_status_write(http: httpx.AsyncClient, path: str) -> str:
    """Return the server's answer to a dry run that writes both ranges again."""
    body = {"status": DUAL_STACK_STATUS}
    answer = await http.patch(f"{path}/status", params={"dryRun": "All"}, headers=MERGE, json=body)
    assert answer.status_code == 200, answer.text
    return answer.text
