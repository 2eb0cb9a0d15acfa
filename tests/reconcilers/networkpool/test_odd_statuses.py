"""An allocation with a status that no pass writes keeps no other allocation waiting."""

from typing import Any

import pytest

from tests.reconcilers import make
from tests.reconcilers.lab import Lab


def make_family_status(name: str, start: str, end: str) -> dict[str, Any]:
    """Return an entry of `status.families`."""
    return {
        "family": name,
        "cidr": f"{start}-{end}",
        "startAddress": start,
        "endAddress": end,
        "allocatedCount": 8,
    }


FIRST = ("10.40.0.8", "10.40.0.15")
SECOND = make_family_status("IPv4", "10.40.0.32", "10.40.0.39")
FAMILIES = {
    "two ranges of IPv4": [SECOND],
    "three ranges": [SECOND, make_family_status("IPv6", "fd00::8", "fd00::f")],
}


@pytest.mark.parametrize("families", FAMILIES.values(), ids=FAMILIES.keys())
async def test_an_allocation_with_several_ranges_of_one_family_keeps_no_other_waiting(
    families: list[dict[str, Any]],
) -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    odd = make.allocation(
        "odd", size=8, held_range=FIRST, phase="Pending", status={"families": families}
    )
    lab.server.add("ipallocations", odd)
    names = [f"w{number:02}" for number in range(20)]
    for name in names:
        lab.server.add("ipallocations", make.allocation(name, size=1))
    await lab.run_pool_pass()
    addresses = [lab.read_status("ipallocations", name).get("startAddress") for name in names]
    taken_addresses = {f"10.40.0.{last}" for last in (*range(8, 16), *range(32, 40))}
    assert len({*addresses}) == 20
    assert not taken_addresses & {*addresses}
    allocation = lab.read_status("ipallocations", "odd")
    assert (allocation["startAddress"], allocation["families"]) == ("10.40.0.8", families)
    assert allocation["phase"] == "Failed"
    assert "several ranges of one family" in str(allocation["conditions"])
    assert lab.find_condition("networkpools", "lab", "Ready")["status"] == "True"


async def test_a_restored_allocation_whose_range_was_handed_out_since_is_refused() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("ipallocations", make.allocation("new", held_range=("10.40.0.8", "10.40.0.15")))
    restored = make.allocation("old", held_range=("10.40.0.12", "10.40.0.19"), phase="Pending")
    lab.server.add("ipallocations", restored)
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "new")["phase"] == "Allocated"
    allocation = lab.read_status("ipallocations", "old")
    assert (allocation["phase"], allocation["startAddress"]) == ("Failed", "10.40.0.12")
    ready = lab.find_condition("ipallocations", "old", "Ready")
    assert ready["reason"] == "RangeInUse"
    assert "IPAllocation new" in str(ready["message"])


async def test_a_restored_allocation_gets_its_range_again_once_the_other_one_is_gone() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("ipallocations", make.allocation("new", held_range=FIRST))
    lab.server.add("ipallocations", make.allocation("old", held_range=FIRST, phase="Pending"))
    await lab.run_pool_pass()
    lab.server.vanish("ipallocations", "new")
    await lab.run_pool_pass()
    allocation = lab.read_status("ipallocations", "old")
    assert (allocation["phase"], allocation["startAddress"]) == ("Allocated", FIRST[0])
