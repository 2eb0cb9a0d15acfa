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
    Yard,
    match_none,
    match_pool_writes,
    note_own_write,
)

EXTRA = "team-a-lb-1"
"""The allocation of the second address, which the scenes take back."""
KEYED = {"lbipam.cilium.io/sharing-key": "k"}
"""The annotations of a Service that may share its address."""


async def project_extra(yard: Yard) -> None:
    """Project a second address, and let a Service use the first one."""
    yard.hold_range(EXTRA, SECOND)
    for _ in range(2):  # The pool is created empty, and filled then.
        await yard.project(yard.one)
    add_service(yard.tenants["a"], "first")


async def check_extra(yard: Yard, late: Matcher = match_none, *, wait: bool = False) -> None:
    """Let the other replica check the deleted allocation once; `late` as in `Yard.work`."""
    await yard.work(yard.other, yard.other.allocations, key=make.key(EXTRA), late=late, wait=wait)


async def release_extra(yard: Yard) -> None:
    """Let the other replica check the deleted allocation twelve times, a second apart."""
    for _ in range(12):
        await check_extra(yard)
        await yard.clock.advance(1)


async def release_during_fill(yard: Yard, *, wait: bool = False) -> str | None:
    """The ranges of a new pool are on their way while the other replica releases them.

    Args:
        yard: the replicas and the tenant.
        wait: whether the sender waits for the answer, and sends the write again if it is refused.
    """
    await yard.project(yard.one)
    yard.hold_range(EXTRA, SECOND)
    await yard.project(yard.one, match_pool_writes("PATCH"), wait=wait)
    yard.server.delete("ipallocations", EXTRA)
    await release_extra(yard)
    await yard.run_late_requests()
    return yard.report_problem()


async def release_during_awaited_fill(yard: Yard) -> str | None:
    """The ranges of a new pool are on their way; their sender repeats a refused write."""
    return await release_during_fill(yard, wait=True)


async def release_address_in_foreign_pool(yard: Yard) -> str | None:
    """A person has a pool with the range, which Cilium does not use while ours exists."""
    yard.hold_range(EXTRA, SECOND)
    await yard.project(yard.one)
    blocks = [{"start": SECOND, "stop": SECOND}]
    yard.tenants["a"].add(POOLS, {"metadata": {"name": "theirs"}, "spec": {"blocks": blocks}})
    yard.server.delete("ipallocations", EXTRA)
    await release_extra(yard)
    return yard.report_problem()


async def fill_range_marked_again(yard: Yard) -> str | None:
    """A range is withdrawn, offered again, and deleted while that offer is on its way.

    The check of the first mark remembers an acknowledgement of the empty pool. If it counted for
    the second mark, nothing would be written to the pool, and the late offer would be valid.
    """
    await project_extra(yard)
    _annotate_extra(yard, names.ANNOTATION_RELEASING, "2026-01-01T00:00:00Z")
    for _ in range(20):
        await yard.project(yard.other, _is_deletion_of_extra, wait=True)
        if yard.late_requests:
            break
        await yard.clock.advance(1)
    assert yard.late_requests, "the allocation is not deleted although its range is out"
    _annotate_extra(yard, names.ANNOTATION_RELEASING, None)
    await yard.run_late_requests()
    assert yard.server.has("ipallocations", EXTRA), "what was marked is not deleted any more"
    await yard.project(yard.one, match_pool_writes("PATCH"))
    yard.server.delete("ipallocations", EXTRA)
    await release_extra(yard)
    await yard.run_late_requests()
    return yard.report_problem()


def _annotate_extra(yard: Yard, annotation: str, value: str | None) -> None:
    """Set or remove an annotation of the second allocation."""
    change = {"metadata": {"annotations": {annotation: value}}}
    yard.server.edit("ipallocations", EXTRA, change)


def _is_deletion_of_extra(packet: HeldRequest) -> bool:
    """Return whether a request deletes the second allocation."""
    return packet.method == "DELETE" and packet.path.endswith(f"/ipallocations/{EXTRA}")


async def empty_unread_pool(yard: Yard, *, wrote: bool = False) -> str | None:
    """A replica that has not read an allocation finds its pool, and a Service that uses it.

    If the replica empties that pool without a drain, the operator remembers the address for a
    later Service with the same sharing key. No check has noted such a Service.

    Args:
        yard: the replicas and the tenant.
        wrote: whether the replica got the answer to an own write after that.
    """
    tenant = yard.tenants["a"]
    await yard.project(yard.one)
    add_service(tenant, "first")
    yard.one.hold_events("ipallocations")
    yard.hold_range(EXTRA, SECOND)
    await yard.project(yard.other)
    add_service(tenant, "keyed", annotations=KEYED)
    assert find_address(tenant, "keyed") == SECOND
    if wrote:
        note_own_write(yard)
    await yard.project(yard.one)
    return await _use_key_later(yard)


async def empty_unread_pool_after_own_write(yard: Yard) -> str | None:
    """The replica that has not read the allocation got the answer to an own write after it."""
    return await empty_unread_pool(yard, wrote=True)


async def _use_key_later(yard: Yard) -> str | None:
    """Delete the Service with the key, release its range, and create a Service with that key."""
    tenant = yard.tenants["a"]
    tenant.vanish("services", "keyed", namespace="default")
    yard.server.delete("ipallocations", EXTRA)
    await release_extra(yard)
    add_service(tenant, "later", annotations=KEYED)
    return yard.report_problem()


async def project_ranges_before_edit(yard: Yard) -> str | None:
    """A person gave an allocation another address; the replica that projects has not read that."""
    await project_extra(yard)
    yard.one.hold_events("ipallocations")
    status = {"startAddress": THIRD, "endAddress": THIRD}
    yard.server.edit("ipallocations", EXTRA, {"status": status})
    await yard.project(yard.other)
    yard.problem = ""  # until here the address that was taken away was the doing of the person
    await yard.project(yard.one)
    return yard.report_problem()


async def use_address_after_check(yard: Yard) -> str | None:
    """A Service takes an address of a range after the check, and before the range is withdrawn."""
    tenant = yard.tenants["a"]
    await project_extra(yard)
    yard.server.delete("ipallocations", EXTRA)
    await check_extra(yard, match_pool_writes("PATCH"), wait=True)
    add_service(tenant, "keyed", annotations=KEYED)
    assert find_address(tenant, "keyed") == SECOND
    await yard.run_late_requests()
    return await _use_key_later(yard)


async def empty_used_pool(yard: Yard) -> str | None:
    """A person empties a pool while a Service with a sharing key uses it; it is filled again."""
    tenant = yard.tenants["a"]
    await project_extra(yard)
    add_service(tenant, "keyed", annotations=KEYED)
    await yard.project(yard.one)  # notes that there is such a Service
    tenant.edit(POOLS, _name_extra_pool(yard), {"spec": {"blocks": []}}, namespace="")
    assert find_address(tenant, "keyed") is None
    await yard.project(yard.one)
    return await _use_key_later(yard)


async def use_address_without_status(yard: Yard) -> str | None:
    """An operator has given a Service an address, and its write of that status was refused.

    If the pool is emptied, the operator remembers the address for a later Service with that key.
    """
    tenant, operator = yard.tenants["a"], yard.balancers["a"]
    assert isinstance(operator, LbIpam)
    await project_extra(yard)
    operator.services_with_refused_write.add("keyed")
    add_service(tenant, "keyed", annotations=KEYED)
    assert find_address(tenant, "keyed") is None
    yard.server.delete("ipallocations", EXTRA)
    await release_extra(yard)
    tenant.vanish("services", "keyed", namespace="default")
    await release_extra(yard)
    add_service(tenant, "later", annotations=KEYED)
    return yard.report_problem()


async def acknowledge_by_deleted_pool(yard: Yard) -> str | None:
    """A person emptied a pool, which the operator has not read; a status says that it has.

    The status is of a deleted pool of that name, with the same generation by chance.
    """
    tenant, operator = yard.tenants["a"], yard.balancers["a"]
    await project_extra(yard)
    operator.paused = True
    tenant.edit(POOLS, _name_extra_pool(yard), {"spec": {"blocks": []}}, namespace="")
    yard.server.delete("ipallocations", EXTRA)
    await check_extra(yard)
    _acknowledge_extra_pool(yard)
    for _ in range(3):
        await check_extra(yard)
    return _create_service_and_resume(yard)


async def acknowledge_by_former_pool(yard: Yard) -> str | None:
    """A person restores a pool during its release, and gets the status of the former pool.

    The operator stands still and has read the restored pool; a check remembers an acknowledgement
    of the former pool.
    """
    tenant, operator = yard.tenants["a"], yard.balancers["a"]
    await project_extra(yard)
    yard.server.delete("ipallocations", EXTRA)
    await check_extra(yard)
    await check_extra(yard)
    backup = tenant.see(POOLS, _name_extra_pool(yard), namespace="")
    assert backup["spec"]["blocks"] == []
    meta = {part: backup["metadata"][part] for part in ("name", "labels", "annotations")}
    tenant.vanish(POOLS, meta["name"], namespace="")
    blocks = [{"start": SECOND, "stop": SECOND}]
    tenant.add(POOLS, {"metadata": meta, "spec": {"blocks": blocks, "disabled": False}})
    operator.paused = True
    tenant.edit(POOLS, meta["name"], {"spec": backup["spec"]}, namespace="")
    _acknowledge_extra_pool(yard)
    for _ in range(3):
        await check_extra(yard)
    return _create_service_and_resume(yard)


def _name_extra_pool(yard: Yard) -> str:
    """Return the name of the pool of the second address."""
    pool_names = [str(pool["metadata"]["name"]) for pool in yard.tenants["a"].all(POOLS)]
    [name] = [name for name in pool_names if name.startswith(f"{EXTRA}-")]
    return name


def _acknowledge_extra_pool(yard: Yard) -> None:
    """Write to the status of the second pool that an operator has read it without a range."""
    name = _name_extra_pool(yard)
    stored = yard.tenants["a"].see(POOLS, name, namespace="")
    count = {"status": "Unknown", "reason": "noreason", "message": "0"}
    count |= {"observedGeneration": stored["metadata"]["generation"]}
    conditions = [{"type": kind, **count} for kind in (IPS_TOTAL, IPS_USED)]
    yard.tenants["a"].edit(POOLS, name, {"status": {"conditions": conditions}}, namespace="")


async def freeze_leader(yard: Yard, *, is_hidden: bool = False) -> str | None:
    """An operator stands still, another takes its Lease, and the first works on with old pools.

    Args:
        yard: the replicas and the tenant.
        is_hidden: whether the controller has no right to read the Lease.
    """
    tenant, frozen = yard.tenants["a"], yard.balancers["a"]
    await project_extra(yard)
    frozen.paused = True
    LbIpam(tenant)
    lease = {"acquireTime": yard.clock.now().isoformat(), "leaseTransitions": 1}
    tenant.edit("leases", LEASE_NAME, {"spec": lease}, namespace="kube-system")
    if is_hidden:
        forbidden = Forbidden(403, "Forbidden", "no role")
        tenant.fail(forbidden, times=100, plural="leases")
    return await _release_while_paused(yard)


async def freeze_hidden_leader(yard: Yard) -> str | None:
    """An operator stands still, and the controller has no right to read the Lease."""
    return await freeze_leader(yard, is_hidden=True)


async def remove_kinds(yard: Yard) -> str | None:
    """Cilium's kinds are removed while the operator stands still, and a range is released."""
    await project_extra(yard)
    yard.balancers["a"].paused = True
    yard.remove_kinds("a")
    return await _release_while_paused(yard)


async def delete_pools(yard: Yard) -> str | None:
    """All pools are deleted by hand while the operator stands still, and a range is released."""
    tenant = yard.tenants["a"]
    await project_extra(yard)
    yard.balancers["a"].paused = True
    for pool in tenant.all(POOLS):
        tenant.vanish(POOLS, pool["metadata"]["name"], namespace="")
    return await _release_while_paused(yard)


async def lose_counts(yard: Yard) -> str | None:
    """The status of a pool is lost while the operator stands still, and a range is released."""
    tenant = yard.tenants["a"]
    await project_extra(yard)
    yard.balancers["a"].paused = True
    for pool in tenant.all(POOLS):
        tenant.edit(POOLS, pool["metadata"]["name"], {"status": None}, namespace="")
    yard.server.delete("ipallocations", EXTRA)
    await release_extra(yard)
    return _create_service_and_resume(yard)


async def _release_while_paused(yard: Yard) -> str | None:
    """Delete the second allocation and check it; then end the pause of the operator."""
    yard.server.delete("ipallocations", EXTRA)
    for _ in range(5):
        await check_extra(yard)
    return _create_service_and_resume(yard)


def _create_service_and_resume(yard: Yard) -> str | None:
    """End the pause of the operator when another Service is waiting."""
    add_service(yard.tenants["a"], "second")
    yard.balancers["a"].resume()
    return yard.report_problem()
