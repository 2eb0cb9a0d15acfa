"""Our webhook refuses what KKP's webhook refuses, with the same messages."""

import pytest

from tests.contract.kubermatic.conftest import serve_webhook
from tests.contract.kubermatic.lab import (
    Body,
    KubermaticLab,
    make_prefix_settings,
    make_range_settings,
)
from tests.contract.product import Server
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="package")

DENIED_PREFIX = 'admission webhook "ipampools.kubermatic.k8c.io" denied the request: '


async def try_create(lab: KubermaticLab, datacenter: Body) -> str:
    """Try to create a pool with one datacenter by a dry run; return the message of the refusal."""
    spec = lab.make_pool_spec(dc=datacenter)
    body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMPool", "spec": spec}
    body["metadata"] = {"name": lab.name("p")}
    answer = await lab.admin.post(lab.build_pool_path(), json=body, params={"dryRun": "All"})
    assert answer.status_code == 403, answer.text
    return str(answer.json()["message"])


REFUSED = [
    (make_range_settings("10.0.0.0/19", 8), "pool prefix is too low for range allocation type"),
    (make_range_settings("2001:db8::/64", 8), "the pool is too big to be processed"),
    (
        make_range_settings("10.0.0.0/28", 17),
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
        make_range_settings("10.0.0.0/28", 4, "10.0.0.1-10.0.0.2-10.0.0.3"),
        (
            'invalid format for range: "10.0.0.1-10.0.0.2-10.0.0.3" (format should be'
            ' "{first_ip}-{last_ip}" or single "{ip}")'
        ),
    ),
    (
        make_range_settings("10.0.0.0/28", 4, "10.0.0.1-x"),
        'invalid IP format for "x" in range "10.0.0.1-x"',
    ),
    (
        make_range_settings("10.0.0.0/28", 4, "10.0.0.1-::1"),
        'different IP versions for range "10.0.0.1-::1"',
    ),
    (
        make_range_settings("10.0.0.0/28", 4, "10.0.0.2-10.0.0.1"),
        'invalid range order for "10.0.0.2-10.0.0.1"',
    ),
    (
        make_range_settings("10.0.0.0/28", 4, "::ffff:10.0.0.2-10.0.0.1"),
        'invalid range order for "::ffff:10.0.0.2-10.0.0.1"',
    ),
    (
        make_prefix_settings("10.0.0.0/24", 20),
        "allocation prefix cannot be smaller than the pool subnet mask size",
    ),
    (make_prefix_settings("10.0.0.0/24", 33), "invalid allocation prefix for IP version"),
    (
        make_prefix_settings("10.0.0.0/24", 28, "10.0.0.0/29"),
        (
            'invalid length for subnet to exclude "10.0.0.0/29": must be the same as the pool'
            " allocation prefix (28)"
        ),
    ),
]
"""Settings of a datacenter, and the message that they are refused with."""


async def test_pools_that_kkp_refuses_are_refused_with_its_messages(
    lab: KubermaticLab, server: Server
) -> None:
    async with serve_webhook(server):
        for datacenter, message in REFUSED:
            assert await try_create(lab, datacenter) == DENIED_PREFIX + message


async def test_edits_of_immutable_fields_are_refused_unless_they_only_respell_the_network(
    lab: KubermaticLab, server: Server
) -> None:
    async with serve_webhook(server):
        await lab.create_pool(
            "p",
            dc=make_range_settings("10.0.0.0/24", 4),
            six=make_prefix_settings("2001:db8::/56", 64),
        )

        async def edit_datacenter(name: str, datacenter: Body) -> str:
            """Return the refusal of an edit; empty if it is accepted."""
            answer = await lab.admin.patch(
                lab.build_pool_path("p"),
                json={"spec": lab.make_pool_spec(**{name: datacenter})},
                headers={"Content-Type": "application/merge-patch+json"},
            )
            return "" if answer.status_code == 200 else str(answer.json()["message"])

        cidr = "it's not allowed to update the pool CIDR for a datacenter"
        kind = "it's not allowed to update the allocation type for a datacenter"
        length = "it's not allowed to update the allocation prefix for a datacenter"
        assert await edit_datacenter("dc", {"poolCidr": "10.0.0.0/25"}) == DENIED_PREFIX + cidr
        assert (
            await edit_datacenter("dc", {"type": "prefix", "allocationPrefix": 28})
            == DENIED_PREFIX + kind
        )
        assert await edit_datacenter("six", {"allocationPrefix": 65}) == DENIED_PREFIX + length
        assert await edit_datacenter("six", {"poolCidr": "2001:DB8:0::/56"}) == ""
        assert await edit_datacenter("dc", {"allocationRange": 8}) == ""
        await lab.create_cluster("a")
        await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.7")
        conflict = (
            "failed to add exclusion: there is an conflicted allocation in IPAM pool"
            f' "{lab.name("p")}" and datacenter "{lab.name("dc")}"'
        )
        for address in ("10.0.0.7", "::ffff:10.0.0.6"):
            assert (
                await edit_datacenter("dc", {"excludeRanges": [address]})
                == DENIED_PREFIX + conflict
            )
        assert await edit_datacenter("dc", {"excludeRanges": ["10.0.0.8"]}) == ""


async def test_a_pool_without_datacenters_is_refused(lab: KubermaticLab, server: Server) -> None:
    async with serve_webhook(server):
        body: Body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMPool"}
        body |= {"metadata": {"name": lab.name("p")}, "spec": {"datacenters": {}}}
        refused = await lab.admin.post(lab.build_pool_path(), json=body)
        assert refused.status_code == 403
        assert "spec.datacenters: must not be empty" in refused.json()["message"]

        await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
        headers = {"Content-Type": "application/merge-patch+json"}
        removal = {"spec": {"datacenters": {lab.name("dc"): None}}}
        refused = await lab.admin.patch(lab.build_pool_path("p"), json=removal, headers=headers)
        assert refused.status_code == 403
        assert "delete the pool" in refused.json()["message"]


async def test_odd_pools_are_accepted_with_warnings(lab: KubermaticLab, server: Server) -> None:
    async with serve_webhook(server):
        await lab.create_pool("q", dc=make_range_settings("10.0.0.0/24", 4))

        async def read_warnings(**datacenters: Body) -> str:
            """Create a pool by a dry run; return the Warning header of the answer."""
            body: Body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMPool"}
            body |= {
                "metadata": {"name": lab.name("p")},
                "spec": lab.make_pool_spec(**datacenters),
            }
            answer = await lab.admin.post(
                lab.build_pool_path(), json=body, params={"dryRun": "All"}
            )
            assert answer.status_code == 201, answer.text
            return str(answer.headers.get("Warning", ""))

        assert "not in the pool" in await read_warnings(
            dc=make_range_settings("10.9.0.0/24", 4, "10.8.0.1")
        )
        await until(
            lambda: read_warnings(dc=make_prefix_settings("10.0.0.128/25", 28)),
            lambda warnings: lab.name("q") in warnings,
        )
        assert await read_warnings(dc=make_prefix_settings("10.1.0.0/24", 28)) == ""
        assert (
            await read_warnings(
                dc=make_range_settings("10.1.0.0/24", 4, "10.1.0.1-::ffff:10.1.0.2")
            )
            == ""
        )


async def test_the_deletion_of_a_pool_in_use_is_allowed(
    lab: KubermaticLab, server: Server
) -> None:
    async with serve_webhook(server):
        await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
        await lab.create_cluster("a")
        await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
        await lab.delete(lab.build_pool_path("p"))
        await until(lambda: lab.find(lab.build_pool_path("p")), lambda pool: pool is None)
