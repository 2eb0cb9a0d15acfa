"""A range is released once MetalLB has read that its pool lacks the range, and not before.

A MetalLB that counts addresses shows that by the count of a *marker*. The marker is an
IPAddressPool of ours that no Service uses; it is changed after the range was removed. An older
MetalLB gets a fixed time.
"""

from typing import Any

import pytest

from controller.meta import TracedMeta
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.clusteraccess.clusteridentity import build_management_annotation
from reconcilers.configuration.settings import Settings, TenantSettings
from reconcilers.ipallocation.release import InUse, Released
from reconcilers.loadbalancers.metallb.kinds import (
    AddressPoolSpec,
    AddressPoolStatus,
    IPAddressPool,
)
from reconcilers.loadbalancers.metallb.uptake import (
    MARKER,
    UptakeStep,
    choose_marker_entry,
    compute_metallb_counts,
    describe_unusable,
    find_next_step,
)
from tests.reconcilers import make
from tests.reconcilers.lab import TENANT_KINDS, Lab
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
RELEASE_MARK = 500
"""The resourceVersion at which the release of the range began."""
MARKER_SIZE = 5
"""The number of addresses of MARKER_ENTRY."""
MARKER_ENTRY = f"192.0.2.1-192.0.2.{MARKER_SIZE}"
"""An entry as our code writes it for the marker."""
COUNTING = (*TENANT_KINDS, "servicebgpstatuses")
PROJECTION_BEGUN = {names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"}


def build_address_pool(
    *entries: str,
    basis: int = 0,
    reported_count: int | None = None,
    generation: int = 2,
    is_automatic: bool = False,
    management: str = "",
) -> IPAddressPool:
    """Return an IPAddressPool as MetalLB and our code left it.

    Args:
        entries: its spec.addresses.
        basis: the position in its annotation: every release marked up to there was out of our
            pool at the last write.
        reported_count: the number of addresses in the status that MetalLB writes; None for no
            status.
        generation: 1 for a pool that was not changed since its creation.
        is_automatic: its spec.autoAssign.
        management: the identity of the management cluster that wrote it; empty for no annotation.
    """
    annotations = {names.ANNOTATION_PROJECTION_BASIS: str(basis)} | build_management_annotation(
        management
    )
    status = (
        AddressPoolStatus(1, 0, availableIPv4=reported_count - 1, availableIPv6=0)
        if reported_count is not None
        else None
    )
    spec = AddressPoolSpec(entries, autoAssign=is_automatic)
    return IPAddressPool(TracedMeta(generation=generation, annotations=annotations), spec, status)


def find_step(marker: IPAddressPool | None, **others: IPAddressPool) -> UptakeStep:
    """Return the next step for a marker (None if it is missing) beside other pools."""
    pools = others | ({MARKER: marker} if marker is not None else {})
    return find_next_step(pools, RELEASE_MARK, basis=RELEASE_MARK + 9)


MOST = 2**63 - 1
"""The largest number that MetalLB can count."""


@pytest.mark.parametrize(
    ("entries", "newer", "older"),
    [
        (["10.0.0.1-10.0.0.4", "fd00::/120"], 4 + 256, 4 + 256),
        (["fd00::/67"], 2**61, 2**61),
        (["fd00::/66"], MOST, MOST),
        (["fd00::/64", "10.0.0.0/30"], MOST + 4, MOST + 4),
        (["10.0.0.0/30", "fd00:1::/120", "fd00::/64"], MOST + 4, MOST + 4),
        (["fd00::/64", "fd00:1::/120"], MOST, MOST + 256 - 2**64),
        ([f"fd00:{number}::/67" for number in range(4)], MOST, -(2**63)),
        (["fd00::-fd00::ffff:ffff:ffff:fffe"], MOST, MOST + 2**62 - 1 - 2**64),
    ],
)
def test_pools_are_counted_like_by_newer_and_older_releases_of_metallb(
    entries: list[str], newer: int, older: int
) -> None:
    spans = [span for entry in entries if (span := addresstexts.parse_cidr_or_span(entry))]
    assert compute_metallb_counts(spans) == (newer, older)


class TestTheNextStep:
    """The next step of a release follows from the pools alone."""

    def test_a_missing_marker_is_created(self) -> None:
        assert find_step(None) is UptakeStep.MARK

    @pytest.mark.parametrize("reported_count", [None, MARKER_SIZE - 1, MARKER_SIZE + 1])
    def test_a_marker_is_waited_for_until_metallb_counts_it(
        self, reported_count: int | None
    ) -> None:
        marker = build_address_pool(
            MARKER_ENTRY, basis=RELEASE_MARK, reported_count=reported_count
        )
        assert find_step(marker) is UptakeStep.WAIT

    def test_a_counted_marker_shows_that_metallb_has_read_the_pools(self) -> None:
        marker = build_address_pool(MARKER_ENTRY, basis=RELEASE_MARK, reported_count=MARKER_SIZE)
        assert find_step(marker) is UptakeStep.DONE

    def test_a_marker_older_than_the_mark_proves_nothing(self) -> None:
        marker = build_address_pool(
            MARKER_ENTRY, basis=RELEASE_MARK - 1, reported_count=MARKER_SIZE
        )
        assert find_step(marker) is UptakeStep.MARK

    def test_a_marker_that_metallb_has_not_counted_yet_proves_nothing(self) -> None:
        marker = build_address_pool(MARKER_ENTRY, basis=RELEASE_MARK - 1, reported_count=3)
        assert find_step(marker) is UptakeStep.WAIT

    def test_a_marker_that_was_just_made_proves_nothing(self) -> None:
        pool = build_address_pool(
            MARKER_ENTRY, basis=RELEASE_MARK, reported_count=MARKER_SIZE, generation=1
        )
        assert find_step(pool) is UptakeStep.MARK

    def test_a_marker_from_before_a_restore_proves_nothing(self) -> None:
        marker = build_address_pool(MARKER_ENTRY, basis=10**12, reported_count=MARKER_SIZE)
        assert find_step(marker) is UptakeStep.MARK

    @pytest.mark.parametrize("entry", ["192.0.2.0/24", "192.0.2.1-198.51.100.5", "?", ""])
    def test_a_marker_that_a_user_changed_is_rewritten(self, entry: str) -> None:
        marker = build_address_pool(entry, basis=RELEASE_MARK, reported_count=MARKER_SIZE)
        assert find_step(marker) is UptakeStep.MARK

    def test_a_marker_that_a_user_has_assigned_automatically_is_rewritten(self) -> None:
        marker = build_address_pool(
            MARKER_ENTRY, basis=RELEASE_MARK, reported_count=MARKER_SIZE, is_automatic=True
        )
        assert find_step(marker) is UptakeStep.MARK

    @pytest.mark.parametrize(
        ("management", "step"),
        [("uid-1", UptakeStep.DONE), ("uid-2", UptakeStep.MARK), ("", UptakeStep.DONE)],
    )
    def test_a_marker_of_another_management_cluster_proves_nothing(
        self, management: str, step: UptakeStep
    ) -> None:
        marker = build_address_pool(
            MARKER_ENTRY, basis=RELEASE_MARK, reported_count=MARKER_SIZE, management="uid-1"
        )
        assert (
            find_next_step(
                {MARKER: marker}, RELEASE_MARK, basis=RELEASE_MARK + 9, management=management
            )
            is step
        )

    def test_a_marker_of_another_management_cluster_is_waited_for_until_it_is_counted(
        self,
    ) -> None:
        marker = build_address_pool(
            MARKER_ENTRY, basis=RELEASE_MARK, reported_count=MARKER_SIZE - 1, management="uid-1"
        )
        assert (
            find_next_step(
                {MARKER: marker}, RELEASE_MARK, basis=RELEASE_MARK + 9, management="uid-2"
            )
            is UptakeStep.WAIT
        )

    def test_a_marker_that_another_pool_overlaps_gets_other_addresses(self) -> None:
        marker = build_address_pool(MARKER_ENTRY, basis=RELEASE_MARK, reported_count=MARKER_SIZE)
        assert find_step(marker, theirs=build_address_pool("192.0.2.0/24")) is UptakeStep.MARK


class TestTheMarkersAddresses:
    """The addresses of the marker differ each time, and are in no other pool."""

    def test_the_number_of_marker_addresses_differs_from_the_last_and_from_metallbs_count(
        self,
    ) -> None:
        marker = build_address_pool("192.0.2.1-192.0.2.11", reported_count=12)
        assert choose_marker_entry({MARKER: marker}, basis=10) == "192.0.2.1-192.0.2.13"

    def test_marker_addresses_are_not_those_of_another_pool(self) -> None:
        pools = {"theirs": build_address_pool("192.0.2.77/32", "198.51.100.0/24")}
        assert choose_marker_entry(pools, basis=0) == "203.0.113.1-203.0.113.1"

    def test_marker_addresses_leave_room_for_a_pool_of_ours_without_effect(self) -> None:
        assert (
            choose_marker_entry({"default-pool": build_address_pool("192.0.2.0-192.0.2.0")}, 0)[:9]
            == "192.0.2.1"
        )


class TestPoolsThatMetalLBCannotUse:
    """MetalLB keeps its last valid configuration; the message says what is invalid."""

    def test_pools_that_overlap_are_named(self) -> None:
        pools = {
            "a": build_address_pool("10.0.0.0-10.0.0.9"),
            "b": build_address_pool("10.0.1.0/24", "10.0.0.9/32"),
        }
        assert describe_unusable(pools) == "IPAddressPools a and b overlap"

    def test_a_pool_whose_entries_overlap_is_named_once(self) -> None:
        pools = {"a": build_address_pool("10.0.0.0-10.0.0.9", "10.0.0.9/32")}
        assert describe_unusable(pools) == "IPAddressPool a has entries that overlap"

    def test_an_entry_that_is_no_range_is_named(self) -> None:
        assert describe_unusable({"a": build_address_pool("10.0.0.9-10.0.0.1")}).startswith(
            "IPAddressPool a has '10.0"
        )

    def test_a_pool_without_addresses_is_named(self) -> None:
        assert describe_unusable({"a": build_address_pool()}) == "IPAddressPool a has no addresses"

    def test_valid_pools_give_no_complaint(self) -> None:
        pools = {
            "a": build_address_pool("10.0.0.0/24", "::/120"),
            "b": build_address_pool("10.0.1.0/24", "::1:0/120"),
        }
        assert describe_unusable(pools) == ""

    def test_a_tenant_with_very_many_entries_costs_little(self) -> None:
        describe_unusable({"a": build_address_pool(*["10.0.0.1/32"] * 1_000_000)})


async def _make_lab(served_kinds: tuple[str, ...], **settings: Any) -> tuple[Lab, Server]:
    """Return a lab with an allocation, and the tenant, whose pool lacks its range."""
    lab = Lab(Settings(**settings))
    lab.server.add("tenantclusters", make.tenant(annotations=PROJECTION_BEGUN))
    lab.server.add("ipallocations", _make_allocation())
    tenant = lab.start_tenant_server("a", served_kinds)
    _add_pool(tenant, "default-pool", "10.40.0.8-10.40.0.15", basis=RELEASE_MARK)
    return lab, tenant


def _add_pool(tenant: Server, name: str, *entries: str, basis: int = 0) -> None:
    """Add an IPAddressPool to a tenant."""
    meta: Json = {"name": name, "namespace": METALLB}
    meta["annotations"] = {names.ANNOTATION_PROJECTION_BASIS: str(basis)}
    tenant.add("ipaddresspools", {"metadata": meta, "spec": {"addresses": list(entries)}})


def _count_marker(tenant: Server) -> None:
    """Let MetalLB count the marker's addresses."""
    pool = tenant.see("ipaddresspools", MARKER, namespace=METALLB)
    size = int(pool["spec"]["addresses"][0].rpartition(".")[2])
    status: Json = {"status": {"assignedIPv4": 0, "availableIPv4": size}}
    tenant.edit("ipaddresspools", MARKER, status, namespace=METALLB)


def _make_allocation() -> IPAllocation:
    """Return the allocation that is being released."""
    return make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"), uid="uid-lb")


async def _check_release(lab: Lab) -> Released | InUse:
    """Run the release check of the allocation once."""
    return await lab.tenant_gate.check(_make_allocation(), RELEASE_MARK)


async def test_a_release_waits_without_limit_for_a_metallb_that_counts_addresses() -> None:
    lab, tenant = await _make_lab(COUNTING)
    for _ in range(3):
        answer = await _check_release(lab)
        assert isinstance(answer, InUse)
        assert "has not read its pools" in answer.why
        await lab.clock.advance(3_600)
    marker = tenant.see("ipaddresspools", MARKER, namespace=METALLB)
    assert marker["spec"]["autoAssign"] is False
    assert tenant.count(verb="post", plural="ipaddresspools") == 1
    _count_marker(tenant)
    assert isinstance(await _check_release(lab), InUse), (
        "the marker was created, but not changed yet"
    )
    _count_marker(tenant)
    assert isinstance(await _check_release(lab), Released)


async def test_the_reason_names_pools_that_keep_metallb_from_reading() -> None:
    lab, tenant = await _make_lab(COUNTING)
    _add_pool(tenant, "theirs", "10.40.0.8/32")
    answer = await _check_release(lab)
    assert isinstance(answer, InUse)
    assert answer.why.endswith("IPAddressPools default-pool and theirs overlap")


async def test_the_reason_includes_the_error_that_metallb_reports() -> None:
    lab, tenant = await _make_lab((*COUNTING, "configurationstates"))
    meta = {"name": "controller", "namespace": METALLB}
    status = {"result": "Invalid", "errorSummary": "community x is not valid"}
    tenant.add("configurationstates", {"metadata": meta, "status": status})
    answer = await _check_release(lab)
    assert isinstance(answer, InUse)
    assert answer.why.endswith(": community x is not valid")


async def test_the_reason_does_not_include_the_error_of_a_speaker() -> None:
    lab, tenant = await _make_lab((*COUNTING, "configurationstates"))
    status = {"result": "Invalid", "errorSummary": "peer p has a wrong ASN"}
    meta = {"name": "speaker-node-1", "namespace": METALLB}
    tenant.add("configurationstates", {"metadata": meta, "status": status})
    answer = await _check_release(lab)
    assert isinstance(answer, InUse)
    assert "peer p" not in answer.why
    meta = {"name": "controller", "namespace": METALLB}
    tenant.add("configurationstates", {"metadata": meta, "status": {"result": "Valid"}})
    answer = await _check_release(lab)
    assert isinstance(answer, InUse)
    assert "peer p" not in answer.why


async def test_a_release_waits_a_fixed_time_for_an_older_metallb() -> None:
    lab, tenant = await _make_lab(TENANT_KINDS, tenant=TenantSettings(metallb_wait=30))
    answer = await _check_release(lab)
    assert isinstance(answer, InUse)
    assert "giving MetalLB 30 s" in answer.why
    await lab.clock.advance(29)
    assert isinstance(await _check_release(lab), InUse)
    await lab.clock.advance(1)
    assert isinstance(await _check_release(lab), Released)
    assert not tenant.has("ipaddresspools", MARKER, namespace=METALLB)


async def test_the_wait_for_an_older_metallb_starts_over_if_the_range_was_in_the_pool_again() -> (
    None
):
    lab, tenant = await _make_lab(TENANT_KINDS, tenant=TenantSettings(metallb_wait=30))
    await _check_release(lab)
    await lab.clock.advance(20)
    for entries in (["10.40.0.0-10.40.0.15"], ["10.40.0.8-10.40.0.15"]):
        change: Json = {"spec": {"addresses": entries}}
        tenant.edit("ipaddresspools", "default-pool", change, namespace=METALLB)
    await lab.clock.advance(10)
    assert isinstance(await _check_release(lab), InUse)
    await lab.clock.advance(30)
    assert isinstance(await _check_release(lab), Released)


async def test_the_wait_for_an_older_metallb_starts_once_its_pools_are_valid() -> None:
    lab, tenant = await _make_lab(TENANT_KINDS, tenant=TenantSettings(metallb_wait=30))
    _add_pool(tenant, "theirs", "10.40.0.8/32")
    for _ in range(5):
        assert isinstance(await _check_release(lab), InUse)
        await lab.clock.advance(30)
    tenant.vanish("ipaddresspools", "theirs", namespace=METALLB)
    await _check_release(lab)
    await lab.clock.advance(29)
    assert isinstance(await _check_release(lab), InUse)
    await lab.clock.advance(2)
    assert isinstance(await _check_release(lab), Released)


async def test_the_marker_is_deleted_with_the_cluster() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    tenant = lab.start_tenant_server("a", COUNTING)
    await lab.run_until_at_rest()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert lab.server.has("tenantclusters", "a", namespace="team")
    for _ in range(2):
        _count_marker(tenant)
        await lab.run_until_at_rest()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert tenant.all("ipaddresspools") == []
