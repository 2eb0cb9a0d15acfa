"""Scenes in which one rule of Cilium's adapter keeps an address from being at two places.

Each scene returns the violation, None if there is none. Its docstring tells the course of events.
"""

from controller.errors import Forbidden
from controller.testing import HeldRequest
from reconcilers.api import names
from reconcilers.loadbalancers.cilium.leader import LEASE_NAME
from reconcilers.loadbalancers.cilium.pools import IPS_TOTAL, IPS_USED
from tests.reconcilers import make
from tests.reconcilers.balancer import add_service, find_address
from tests.reconcilers.lbipam import POOLS, LbIpam
from tests.reconcilers.simulation.tenantscenes import (
    SECOND,
    THIRD,
    Matcher,
    TenantStage,
    match_none,
    match_pool_writes,
    note_own_write,
)

EXTRA = "team-a-lb-1"
"""The allocation of the second address, which the scenes take back."""
KEYED = {"lbipam.cilium.io/sharing-key": "k"}
"""The annotations of a Service that may share its address."""


async def project_extra(stage: TenantStage) -> None:
    """Project a second address, and let a Service use the first one."""
    stage.hold_range(EXTRA, SECOND)
    for _ in range(2):  # The pool is created empty, and filled then.
        await stage.project(stage.one)
    add_service(stage.tenants["a"], "first")


async def check_extra(
    stage: TenantStage, late: Matcher = match_none, *, wait: bool = False
) -> None:
    """Let the other replica check the deleted allocation once; `late` as in `TenantStage.work`."""
    await stage.work(
        stage.other, stage.other.allocations, key=make.key(EXTRA), late=late, wait=wait
    )


async def release_extra(stage: TenantStage) -> None:
    """Let the other replica check the deleted allocation twelve times, a second apart."""
    for _ in range(12):
        await check_extra(stage)
        await stage.clock.advance(1)


async def release_during_fill(stage: TenantStage, *, wait: bool = False) -> str | None:
    """The ranges of a new pool are on their way while the other replica releases them.

    Args:
        stage: the replicas and the tenant.
        wait: whether the sender waits for the answer, and sends the write again if it is refused.
    """
    await stage.project(stage.one)
    stage.hold_range(EXTRA, SECOND)
    await stage.project(stage.one, match_pool_writes("PATCH"), wait=wait)
    stage.server.delete("ipallocations", EXTRA)
    await release_extra(stage)
    await stage.run_late_requests()
    return stage.report_problem()


async def release_during_awaited_fill(stage: TenantStage) -> str | None:
    """The ranges of a new pool are on their way; their sender repeats a refused write."""
    return await release_during_fill(stage, wait=True)


async def release_address_in_foreign_pool(stage: TenantStage) -> str | None:
    """A person has a pool with the range, which Cilium does not use while ours exists."""
    stage.hold_range(EXTRA, SECOND)
    await stage.project(stage.one)
    blocks = [{"start": SECOND, "stop": SECOND}]
    stage.tenants["a"].add(POOLS, {"metadata": {"name": "theirs"}, "spec": {"blocks": blocks}})
    stage.server.delete("ipallocations", EXTRA)
    await release_extra(stage)
    return stage.report_problem()


async def fill_range_marked_again(stage: TenantStage) -> str | None:
    """A range is withdrawn, offered again, and deleted while that offer is on its way.

    The check of the first mark remembers an acknowledgement of the empty pool. If it counted for
    the second mark, nothing would be written to the pool, and the late offer would be valid.
    """
    await project_extra(stage)
    _annotate_extra(stage, names.ANNOTATION_RELEASING, "2026-01-01T00:00:00Z")
    for _ in range(20):
        await stage.project(stage.other, _is_deletion_of_extra, wait=True)
        if stage.late_requests:
            break
        await stage.clock.advance(1)
    assert stage.late_requests, "the allocation is not deleted although its range is out"
    _annotate_extra(stage, names.ANNOTATION_RELEASING, None)
    await stage.run_late_requests()
    assert stage.server.has("ipallocations", EXTRA), "what was marked is not deleted any more"
    await stage.project(stage.one, match_pool_writes("PATCH"))
    stage.server.delete("ipallocations", EXTRA)
    await release_extra(stage)
    await stage.run_late_requests()
    return stage.report_problem()


def _annotate_extra(stage: TenantStage, annotation: str, value: str | None) -> None:
    """Set or remove an annotation of the second allocation."""
    change = {"metadata": {"annotations": {annotation: value}}}
    stage.server.edit("ipallocations", EXTRA, change)


def _is_deletion_of_extra(packet: HeldRequest) -> bool:
    """Return whether a request deletes the second allocation."""
    return packet.method == "DELETE" and packet.path.endswith(f"/ipallocations/{EXTRA}")


async def empty_unread_pool(stage: TenantStage, *, wrote: bool = False) -> str | None:
    """A replica that has not read an allocation finds its pool, and a Service that uses it.

    If the replica empties that pool without a drain, the operator remembers the address for a
    later Service with the same sharing key. No check has noted such a Service.

    Args:
        stage: the replicas and the tenant.
        wrote: whether the replica got the answer to an own write after that.
    """
    tenant = stage.tenants["a"]
    await stage.project(stage.one)
    add_service(tenant, "first")
    stage.one.hold_events("ipallocations")
    stage.hold_range(EXTRA, SECOND)
    await stage.project(stage.other)
    add_service(tenant, "keyed", annotations=KEYED)
    assert find_address(tenant, "keyed") == SECOND
    if wrote:
        note_own_write(stage)
    await stage.project(stage.one)
    return await _use_key_later(stage)


async def empty_unread_pool_after_own_write(stage: TenantStage) -> str | None:
    """The replica that has not read the allocation got the answer to an own write after it."""
    return await empty_unread_pool(stage, wrote=True)


async def _use_key_later(stage: TenantStage) -> str | None:
    """Delete the Service with the key, release its range, and create a Service with that key."""
    tenant = stage.tenants["a"]
    tenant.vanish("services", "keyed", namespace="default")
    stage.server.delete("ipallocations", EXTRA)
    await release_extra(stage)
    add_service(tenant, "later", annotations=KEYED)
    return stage.report_problem()


async def project_ranges_before_edit(stage: TenantStage) -> str | None:
    """A person gave an allocation another address; the replica that projects has not read that."""
    await project_extra(stage)
    stage.one.hold_events("ipallocations")
    status = {"startAddress": THIRD, "endAddress": THIRD}
    stage.server.edit("ipallocations", EXTRA, {"status": status})
    await stage.project(stage.other)
    stage.problem = ""  # until here the address that was taken away was the doing of the person
    await stage.project(stage.one)
    return stage.report_problem()


async def use_address_after_check(stage: TenantStage) -> str | None:
    """A Service takes an address of a range after the check, and before the range is withdrawn."""
    tenant = stage.tenants["a"]
    await project_extra(stage)
    stage.server.delete("ipallocations", EXTRA)
    await check_extra(stage, match_pool_writes("PATCH"), wait=True)
    add_service(tenant, "keyed", annotations=KEYED)
    assert find_address(tenant, "keyed") == SECOND
    await stage.run_late_requests()
    return await _use_key_later(stage)


async def empty_used_pool(stage: TenantStage) -> str | None:
    """A person empties a pool that a Service with a sharing key uses; a pass fills it again.

    Later the range is released, and another Service has the same key.
    """
    tenant = stage.tenants["a"]
    await project_extra(stage)
    add_service(tenant, "keyed", annotations=KEYED)
    await stage.project(stage.one)  # notes that there is such a Service
    tenant.edit(POOLS, _name_extra_pool(stage), {"spec": {"blocks": []}}, namespace="")
    assert find_address(tenant, "keyed") is None
    await stage.project(stage.one)
    return await _use_key_later(stage)


async def use_address_without_status(stage: TenantStage) -> str | None:
    """An operator has given a Service an address, and its write of that status was refused.

    If the pool is emptied, the operator remembers the address for a later Service with that key.
    """
    tenant, operator = stage.tenants["a"], stage.balancers["a"]
    assert isinstance(operator, LbIpam)
    await project_extra(stage)
    operator.services_with_refused_write.add("keyed")
    add_service(tenant, "keyed", annotations=KEYED)
    assert find_address(tenant, "keyed") is None
    stage.server.delete("ipallocations", EXTRA)
    await release_extra(stage)
    tenant.vanish("services", "keyed", namespace="default")
    await release_extra(stage)
    add_service(tenant, "later", annotations=KEYED)
    return stage.report_problem()


async def acknowledge_by_deleted_pool(stage: TenantStage) -> str | None:
    """A person emptied a pool, which the operator has not read; a status says that it has.

    The status is of a deleted pool of that name, with the same generation by chance.
    """
    tenant, operator = stage.tenants["a"], stage.balancers["a"]
    await project_extra(stage)
    operator.paused = True
    tenant.edit(POOLS, _name_extra_pool(stage), {"spec": {"blocks": []}}, namespace="")
    stage.server.delete("ipallocations", EXTRA)
    await check_extra(stage)
    _acknowledge_extra_pool(stage)
    for _ in range(3):
        await check_extra(stage)
    return _create_service_and_resume(stage)


async def acknowledge_by_former_pool(stage: TenantStage) -> str | None:
    """A person restores a pool during its release, and gets the status of the former pool.

    The operator stands still and has read the restored pool; a check remembers an acknowledgement
    of the former pool.
    """
    tenant, operator = stage.tenants["a"], stage.balancers["a"]
    await project_extra(stage)
    stage.server.delete("ipallocations", EXTRA)
    await check_extra(stage)
    await check_extra(stage)
    backup = tenant.see(POOLS, _name_extra_pool(stage), namespace="")
    assert backup["spec"]["blocks"] == []
    meta = {part: backup["metadata"][part] for part in ("name", "labels", "annotations")}
    tenant.vanish(POOLS, meta["name"], namespace="")
    blocks = [{"start": SECOND, "stop": SECOND}]
    tenant.add(POOLS, {"metadata": meta, "spec": {"blocks": blocks, "disabled": False}})
    operator.paused = True
    tenant.edit(POOLS, meta["name"], {"spec": backup["spec"]}, namespace="")
    _acknowledge_extra_pool(stage)
    for _ in range(3):
        await check_extra(stage)
    return _create_service_and_resume(stage)


def _name_extra_pool(stage: TenantStage) -> str:
    """Return the name of the pool of the second address."""
    pool_names = [str(pool["metadata"]["name"]) for pool in stage.tenants["a"].all(POOLS)]
    [name] = [name for name in pool_names if name.startswith(f"{EXTRA}-")]
    return name


def _acknowledge_extra_pool(stage: TenantStage) -> None:
    """Write to the status of the second pool that an operator has read it without a range."""
    name = _name_extra_pool(stage)
    stored = stage.tenants["a"].see(POOLS, name, namespace="")
    count = {"status": "Unknown", "reason": "noreason", "message": "0"}
    count |= {"observedGeneration": stored["metadata"]["generation"]}
    conditions = [{"type": kind, **count} for kind in (IPS_TOTAL, IPS_USED)]
    stage.tenants["a"].edit(POOLS, name, {"status": {"conditions": conditions}}, namespace="")


async def freeze_leader(stage: TenantStage, *, is_hidden: bool = False) -> str | None:
    """An operator stands still, another takes its Lease, and the first works on with old pools.

    Args:
        stage: the replicas and the tenant.
        is_hidden: whether the controller has no right to read the Lease.
    """
    tenant, frozen = stage.tenants["a"], stage.balancers["a"]
    await project_extra(stage)
    frozen.paused = True
    LbIpam(tenant)
    lease = {"acquireTime": stage.clock.now().isoformat(), "leaseTransitions": 1}
    tenant.edit("leases", LEASE_NAME, {"spec": lease}, namespace="kube-system")
    if is_hidden:
        forbidden = Forbidden(403, "Forbidden", "no role")
        tenant.fail(forbidden, times=100, plural="leases")
    return await _release_while_paused(stage)


async def freeze_hidden_leader(stage: TenantStage) -> str | None:
    """An operator stands still, and the controller has no right to read the Lease."""
    return await freeze_leader(stage, is_hidden=True)


async def remove_kinds(stage: TenantStage) -> str | None:
    """Cilium's kinds are removed while the operator stands still, and a range is released."""
    await project_extra(stage)
    stage.balancers["a"].paused = True
    stage.remove_kinds("a")
    return await _release_while_paused(stage)


async def delete_pools(stage: TenantStage) -> str | None:
    """All pools are deleted by hand while the operator stands still, and a range is released."""
    tenant = stage.tenants["a"]
    await project_extra(stage)
    stage.balancers["a"].paused = True
    for pool in tenant.all(POOLS):
        tenant.vanish(POOLS, pool["metadata"]["name"], namespace="")
    return await _release_while_paused(stage)


async def lose_counts(stage: TenantStage) -> str | None:
    """The status of a pool is lost while the operator stands still, and a range is released."""
    tenant = stage.tenants["a"]
    await project_extra(stage)
    stage.balancers["a"].paused = True
    for pool in tenant.all(POOLS):
        tenant.edit(POOLS, pool["metadata"]["name"], {"status": None}, namespace="")
    stage.server.delete("ipallocations", EXTRA)
    await release_extra(stage)
    return _create_service_and_resume(stage)


async def _release_while_paused(stage: TenantStage) -> str | None:
    """Delete the second allocation and check it; then end the pause of the operator."""
    stage.server.delete("ipallocations", EXTRA)
    for _ in range(5):
        await check_extra(stage)
    return _create_service_and_resume(stage)


def _create_service_and_resume(stage: TenantStage) -> str | None:
    """Create a second Service, which waits, and end the pause of the operator.

    Returns:
        The violation; None if there is none.
    """
    add_service(stage.tenants["a"], "second")
    stage.balancers["a"].resume()
    return stage.report_problem()
