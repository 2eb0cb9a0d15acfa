"""What KKP's webhook refuses is refused with its words, on the server."""

import pytest

from tests.contract.kubermatic.conftest import serve_webhook
from tests.contract.kubermatic.lab import Body, Lab, prefixes, ranges
from tests.contract.product import Server
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="package")

DENIED = 'admission webhook "ipampools.kubermatic.k8c.io" denied the request: '


async def refusal(lab: Lab, datacenter: Body) -> str:
    """Return why a pool with one datacenter is refused."""
    spec = lab.datacenters(dc=datacenter)
    body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMPool", "spec": spec}
    body["metadata"] = {"name": lab.name("p")}
    answer = await lab.admin.post(lab.pools(), json=body, params={"dryRun": "All"})
    assert answer.status_code == 403, answer.text
    return str(answer.json()["message"])


REFUSED = [
    (ranges("10.0.0.0/19", 8), "pool prefix is too low for range allocation type"),
    (ranges("2001:db8::/64", 8), "the pool is too big to be processed"),
    (
        ranges("10.0.0.0/28", 17),
        (
            "allocation range cannot be greater than the pool subnet possible number of IP"
            " addresses"
        ),
    ),
    (
        {"type": "range", "poolCidr": "10.0.0.0/28"},
        "allocation range should be greater than zero",
    ),
    (
        ranges("10.0.0.0/28", 4, "10.0.0.1-10.0.0.2-10.0.0.3"),
        (
            'invalid format for range: "10.0.0.1-10.0.0.2-10.0.0.3" (format should be'
            ' "{first_ip}-{last_ip}" or single "{ip}")'
        ),
    ),
    (
        ranges("10.0.0.0/28", 4, "10.0.0.1-x"),
        'invalid IP format for "x" in range "10.0.0.1-x"',
    ),
    (
        ranges("10.0.0.0/28", 4, "10.0.0.1-::1"),
        'different IP versions for range "10.0.0.1-::1"',
    ),
    (
        ranges("10.0.0.0/28", 4, "10.0.0.2-10.0.0.1"),
        'invalid range order for "10.0.0.2-10.0.0.1"',
    ),
    (
        ranges("10.0.0.0/28", 4, "::ffff:10.0.0.2-10.0.0.1"),
        'invalid range order for "::ffff:10.0.0.2-10.0.0.1"',
    ),
    (
        prefixes("10.0.0.0/24", 20),
        "allocation prefix cannot be smaller than the pool subnet mask size",
    ),
    (prefixes("10.0.0.0/24", 33), "invalid allocation prefix for IP version"),
    (
        prefixes("10.0.0.0/24", 28, "10.0.0.0/29"),
        (
            'invalid length for subnet to exclude "10.0.0.0/29": must be the same as the pool'
            " allocation prefix (28)"
        ),
    ),
]


async def test_pools_that_kkp_refuses_are_refused_with_its_words(lab: Lab, server: Server) -> None:
    async with serve_webhook(server):
        for datacenter, message in REFUSED:
            assert await refusal(lab, datacenter) == DENIED + message


async def test_what_may_not_change_is_refused_and_the_same_network_is_no_change(
    lab: Lab, server: Server
) -> None:
    async with serve_webhook(server):
        await lab.pool("p", dc=ranges("10.0.0.0/24", 4), six=prefixes("2001:db8::/56", 64))

        async def change(name: str, datacenter: Body) -> str:
            answer = await lab.admin.patch(
                lab.pools("p"),
                json={"spec": lab.datacenters(**{name: datacenter})},
                headers={"Content-Type": "application/merge-patch+json"},
            )
            return "" if answer.status_code == 200 else str(answer.json()["message"])

        cidr = "it's not allowed to update the pool CIDR for a datacenter"
        kind = "it's not allowed to update the allocation type for a datacenter"
        length = "it's not allowed to update the allocation prefix for a datacenter"
        assert await change("dc", {"poolCidr": "10.0.0.0/25"}) == DENIED + cidr
        assert await change("dc", {"type": "prefix", "allocationPrefix": 28}) == DENIED + kind
        assert await change("six", {"allocationPrefix": 65}) == DENIED + length
        assert await change("six", {"poolCidr": "2001:DB8:0::/56"}) == ""
        assert await change("dc", {"allocationRange": 8}) == ""
        await lab.cluster("a")
        await lab.has("a", "p", "10.0.0.0-10.0.0.7")
        conflict = (
            "failed to add exclusion: there is an conflicted allocation in IPAM pool"
            f' "{lab.name("p")}" and datacenter "{lab.name("dc")}"'
        )
        for address in ("10.0.0.7", "::ffff:10.0.0.6"):
            assert await change("dc", {"excludeRanges": [address]}) == DENIED + conflict
        assert await change("dc", {"excludeRanges": ["10.0.0.8"]}) == ""


async def test_a_pool_without_datacenters_is_refused(lab: Lab, server: Server) -> None:
    async with serve_webhook(server):
        body: Body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMPool"}
        body |= {"metadata": {"name": lab.name("p")}, "spec": {"datacenters": {}}}
        refused = await lab.admin.post(lab.pools(), json=body)
        assert refused.status_code == 403
        assert "spec.datacenters: must not be empty" in refused.json()["message"]

        await lab.pool("p", dc=ranges("10.0.0.0/24", 4))
        headers = {"Content-Type": "application/merge-patch+json"}
        removal = {"spec": {"datacenters": {lab.name("dc"): None}}}
        refused = await lab.admin.patch(lab.pools("p"), json=removal, headers=headers)
        assert refused.status_code == 403
        assert "delete the pool" in refused.json()["message"]


async def test_odd_pools_are_accepted_with_warnings(lab: Lab, server: Server) -> None:
    async with serve_webhook(server):
        await lab.pool("q", dc=ranges("10.0.0.0/24", 4))

        async def warnings(**datacenters: Body) -> str:
            body: Body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMPool"}
            body |= {"metadata": {"name": lab.name("p")}, "spec": lab.datacenters(**datacenters)}
            answer = await lab.admin.post(lab.pools(), json=body, params={"dryRun": "All"})
            assert answer.status_code == 201, answer.text
            return str(answer.headers.get("Warning", ""))

        assert "not in the pool" in await warnings(dc=ranges("10.9.0.0/24", 4, "10.8.0.1"))
        await until(
            lambda: warnings(dc=prefixes("10.0.0.128/25", 28)),
            lambda warnings: lab.name("q") in warnings,
        )
        assert await warnings(dc=prefixes("10.1.0.0/24", 28)) == ""
        assert await warnings(dc=ranges("10.1.0.0/24", 4, "10.1.0.1-::ffff:10.1.0.2")) == ""


async def test_the_deletion_of_a_pool_in_use_is_let_through(lab: Lab, server: Server) -> None:
    async with serve_webhook(server):
        await lab.pool("p", dc=ranges("10.0.0.0/24", 4))
        await lab.cluster("a")
        await lab.has("a", "p", "10.0.0.0-10.0.0.3")
        await lab.delete(lab.pools("p"))
        await until(lambda: lab.find(lab.pools("p")), lambda pool: pool is None)
