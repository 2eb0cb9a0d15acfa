"""An address that is written as ::ffff:a.b.c.d is the IPv4 address."""

from tests.reconcilers import make
from tests.reconcilers.lab import Lab


async def test_a_status_with_a_mapped_address_keeps_the_ipv4_address() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("ipallocations", make.allocation("a", size=1))
    for _ in range(2):
        await lab.run_pool_pass()
    first = lab.read_status("ipallocations", "a")["startAddress"]
    mapped = f"::ffff:{first}"
    ends = {"startAddress": mapped, "endAddress": mapped}
    status = ends | {"cidr": f"{mapped}/128", "addresses": [mapped]}
    lab.server.edit("ipallocations", "a", {"status": status})
    lab.server.add("ipallocations", make.allocation("b", size=1))
    for _ in range(2):
        await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "b")["startAddress"] != first
