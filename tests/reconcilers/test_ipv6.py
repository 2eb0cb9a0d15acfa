"""IPv6 pools under the real manager on a virtual clock work as IPv4 pools, and have any size.

Numbers of 32 bits in the status of objects show at most MOST_SHOWN; exact numbers are beside them.
"""

from controller.manager import Manager
from tests.reconcilers import make
from tests.reconcilers.platform import Platform

LAB = {"pool": "lab", "namespace": make.NAMESPACE}
ADDRESSES_OF_64 = 2**64
"""The number of addresses of a /64."""

MOST_SHOWN = 2**31 - 1

COUNTERS = ("totalIPs", "allocatedIPs", "availableIPs", "largestFreeBlock")


def _make_platform(cidr: str = "FD00:0:0::/64", *reserved: str) -> Platform:
    """Return a management cluster with a provider and its pool `lab`.

    Args:
        cidr: the addresses of the pool.
        reserved: CIDRs of the pool that are reserved.
    """
    platform = Platform()
    pool = make.pool(cidr=cidr, reserved=reserved, memory=None)
    platform.server.add("networkpools", pool)
    platform.server.add("providerconfigs", make.provider("lab"))
    return platform


def _read_gauge(manager: Manager, name: str) -> float | None:
    return manager.metrics.registry.get_sample_value(f"butler_network_pool_{name}", LAB)


async def test_a_tenant_gets_ranges_of_a_pool_of_ipv6_in_canonical_text() -> None:
    platform = _make_platform("FD00:0:0::/64", "FD00::000F/124")
    tenant = platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(1.0)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"
        cidr = {
            name: platform.server.see("ipallocations", f"team-a-{name}")["status"]["cidr"]
            for name in ("lb", "nodes")
        }
        assert cidr == {"lb": "fd00::10/125", "nodes": "fd00::18-fd00::1c"}
        balancer_pool = tenant.see("ipaddresspools", "default-pool", namespace="metallb-system")
        assert balancer_pool["spec"]["addresses"] == ["fd00::10-fd00::17"]


async def test_a_pin_in_any_spelling_is_allocated_and_so_are_the_addresses_beside_it() -> None:
    platform = _make_platform("fd00::/124")
    async with platform.running():
        pin = ("FD00::0004", "fd00:0:0:0:0:0:0:7")
        platform.server.add("ipallocations", make.allocation("pinned", tenant="x/y", pin=pin))
        await platform.clock.advance(1.0)
        for name, size in (("four", 4), ("eight", 8)):
            platform.server.add("ipallocations", make.allocation(name, tenant="x/y", size=size))
            await platform.clock.advance(1.0)
        cidr = {
            name: platform.server.see("ipallocations", name)["status"]["cidr"]
            for name in ("pinned", "four", "eight")
        }
    assert cidr == {"pinned": "fd00::4/126", "four": "fd00::/126", "eight": "fd00::8/125"}


async def test_a_pool_beyond_32_bits_is_counted_exactly_wherever_it_is_shown() -> None:
    platform = _make_platform()
    async with platform.running() as manager:
        platform.server.add("ipallocations", make.allocation("a", tenant="x/y", size=56))
        await platform.clock.advance(1.0)
        status = platform.server.see("networkpools", "lab")["status"]
        provider = platform.server.see("providerconfigs", "default")["status"]
        gauges = {name: _read_gauge(manager, name) for name in ("total_ips", "allocated_ips")}
    assert [status[name] for name in COUNTERS] == [MOST_SHOWN, 56, MOST_SHOWN, MOST_SHOWN]
    exact = dict(
        zip(
            COUNTERS,
            (ADDRESSES_OF_64, 56, ADDRESSES_OF_64 - 56, ADDRESSES_OF_64 - 56),
            strict=True,
        )
    )
    assert status["exactCounts"] == {name: str(count) for name, count in exact.items()}
    assert provider["capacity"] == {"availableIPs": MOST_SHOWN, "estimatedTenants": MOST_SHOWN}
    [available] = [c for c in provider["conditions"] if c["type"] == "PoolAvailable"]
    assert f"{ADDRESSES_OF_64 - 56} IPs available" in available["message"]
    assert gauges == {"total_ips": ADDRESSES_OF_64, "allocated_ips": 56}


async def test_a_range_beyond_32_bits_is_counted_exactly() -> None:
    platform = _make_platform("fd00::/48")
    pin = ("fd00::", "fd00::ffff:ffff:ffff:ffff")
    async with platform.running():
        platform.server.add("ipallocations", make.allocation("a", tenant="x/y", pin=pin))
        await platform.clock.advance(1.0)
        status = platform.server.see("ipallocations", "a")["status"]
        events = [event["note"] for event in platform.server.all("events")]
    assert (status["cidr"], status["allocatedCount"]) == ("fd00::/64", MOST_SHOWN)
    assert status["exactCount"] == str(ADDRESSES_OF_64)
    assert len(status["addresses"]) == 16_384
    assert f"Allocated {ADDRESSES_OF_64} IPs (fd00:: - fd00::ffff:ffff:ffff:ffff) for a" in events


async def test_at_rest_nothing_is_written_about_a_pool_beyond_32_bits() -> None:
    platform = _make_platform()
    async with platform.running():
        platform.server.add("ipallocations", make.allocation("a", tenant="x/y", size=56))
        await platform.clock.advance(200)
        platform.server.requests.clear()
        await platform.clock.advance(600)
        assert [r for r in platform.server.requests if r.verb not in {"watch", "list"}] == []


async def test_blocks_by_prefix_length_are_aligned_and_shown_as_a_cidr() -> None:
    platform = _make_platform("fd00::/48", "fd00:0:0:1::/64")
    async with platform.running():
        for name, size, prefix in (("a", None, 64), ("small", 8, None), ("b", None, 64)):
            request = make.allocation(name, tenant="x/y", size=size, prefix=prefix)
            platform.server.add("ipallocations", request)
            await platform.clock.advance(1.0)
        cidr = {
            name: platform.server.see("ipallocations", name)["status"]["cidr"]
            for name in ("a", "small", "b")
        }
        assert cidr == {"a": "fd00::/64", "small": "fd00:0:0:2::/125", "b": "fd00:0:0:3::/64"}
        huge = make.allocation("huge", tenant="x/y", prefix=48)
        platform.server.add("ipallocations", huge)
        await platform.clock.advance(1.0)
        [ready] = platform.server.see("ipallocations", "huge")["status"]["conditions"]
    assert ready["reason"] == "PoolExhausted"
    assert (
        f"it never has {2**80} addresses in a row as one CIDR, {2**79} at the most"
        in (ready["message"])
    )


async def test_a_released_block_is_allocated_to_the_request_that_waits_for_one() -> None:
    platform = _make_platform("fd00::/64")
    async with platform.running():
        for name in ("low", "high"):
            platform.server.add("ipallocations", make.allocation(name, tenant="x/y", prefix=65))
            await platform.clock.advance(1.0)
        platform.server.add("ipallocations", make.allocation("next", tenant="x/y", prefix=65))
        await platform.clock.advance(1.0)
        assert platform.phase("ipallocations", "next") == "Failed"
        platform.server.delete("ipallocations", "low")
        await platform.clock.advance(1.0)
        status = platform.server.see("ipallocations", "next")["status"]
    assert (status["phase"], status["cidr"]) == ("Allocated", "fd00::/65")


async def test_a_prefix_length_of_ipv6_is_an_invalid_request_to_an_ipv4_pool() -> None:
    platform = _make_platform("10.40.0.0/24")
    async with platform.running():
        platform.server.add("ipallocations", make.allocation("a", tenant="x/y", prefix=64))
        await platform.clock.advance(1.0)
        status = platform.server.see("ipallocations", "a")["status"]
    assert status["phase"] == "Failed"
    assert [c["reason"] for c in status["conditions"]] == ["InvalidRequest"]


async def test_no_exact_counts_are_written_where_32_bits_are_enough() -> None:
    platform = _make_platform("10.40.0.0/24")
    async with platform.running():
        platform.server.add("ipallocations", make.allocation("a", tenant="x/y", size=56))
        await platform.clock.advance(1.0)
    written = [h.object.get("status") or {} for h in platform.server.history]
    assert any("allocatedIPs" in status for status in written)
    assert any("allocatedCount" in status for status in written)
    assert not any({"exactCount", "exactCounts"} & set(status) for status in written)


async def test_the_gauges_of_a_pool_of_two_families_name_the_family() -> None:
    platform = Platform()
    pool = make.pool(secondary={"cidr": "fd00::/64"}, memory=None)
    platform.server.add("networkpools", pool)
    async with platform.running() as manager:
        await platform.clock.advance(1.0)
        sample = manager.metrics.registry.get_sample_value
        total = {
            family: sample("butler_network_pool_total_ips", LAB | family_label)
            for family, family_label in (
                ("", {}),
                ("IPv4", {"family": "IPv4"}),
                ("IPv6", {"family": "IPv6"}),
            )
        }
        count = sample("butler_network_pool_allocation_count", LAB)
    assert total == {"": None, "IPv4": 256, "IPv6": ADDRESSES_OF_64}
    assert count == 0
