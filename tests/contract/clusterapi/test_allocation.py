"""Claims get the lowest free address of their pool, of each kind of pool."""

import pytest

from tests.contract.clusterapi.lab import Lab

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_a_claim_gets_the_lowest_free_address_and_the_pool_counts_it(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.12", gateway="10.0.0.1")
    await lab.claim("a", "p")
    assert await lab.served("a") == "10.0.0.10"
    await lab.counts("p", (3, 1, 2, 0))
