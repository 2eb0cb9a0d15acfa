"""Allocations whose status shows what no pass writes: it concerns them alone."""

from typing import Any

import pytest

from tests.reconcilers import make
from tests.reconcilers.lab import Lab


def family(name: str, start: str, end: str) -> dict[str, Any]:
    return {
        "family": name,
        "cidr": f"{start}-{end}",
        "startAddress": start,
        "endAddress": end,
        "allocatedCount": 8,
    }


SECOND = family("IPv4", "10.40.0.32", "10.40.0.39")
SHOWN = {
    "two ranges of IPv4": [SECOND],
    "three ranges": [SECOND, family("IPv6", "fd00::8", "fd00::f")],
}


@pytest.mark.parametrize("families", SHOWN.values(), ids=SHOWN.keys())
async def test_an_allocation_with_several_ranges_of_one_family_keeps_no_other_waiting(
    families: list[dict[str, Any]],
) -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    held = ("10.40.0.8", "10.40.0.15")
    odd = make.allocation("odd", size=8, held=held, phase="Pending", status={"families": families})
    lab.server.add("ipallocations", odd)
    names = [f"w{number:02}" for number in range(20)]
    for name in names:
        lab.server.add("ipallocations", make.allocation(name, size=1))
    await lab.pool()
    addresses = [lab.see("ipallocations", name).get("startAddress") for name in names]
    taken = {f"10.40.0.{last}" for last in (*range(8, 16), *range(32, 40))}
    assert len({*addresses}) == 20
    assert not taken & {*addresses}
    shown = lab.see("ipallocations", "odd")
    assert (shown["startAddress"], shown["families"]) == ("10.40.0.8", families)
    assert shown["phase"] == "Failed"
    assert "several ranges of one family" in str(shown["conditions"])
    assert lab.condition("networkpools", "lab", "Ready")["status"] == "True"
