"""Two live processes, frozen in turn, and claims of both kinds that come and go."""

from collections import Counter
from pathlib import Path

import anyio
import pytest

from tests.contract.metal3.lab import ADDRESS_KINDS, CLAIM_KINDS, Metal3Lab, address_name
from tests.contract.product import Server, frozen, product
from tests.polling import until
from tests.reconcilers.cli.commands import installed

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]


async def create_claims(lab: Metal3Lab, first: int, last: int) -> None:
    """Create claims of both kinds all at once, every other one an IPAddressClaim."""
    async with anyio.create_task_group() as group:
        for number in range(first, last):
            group.start_soon(lab.claim, name_of(number), "p", CLAIM_KINDS[number % 2])


async def delete_claims(lab: Metal3Lab, first: int, last: int) -> None:
    """Delete claims all at once."""
    async with anyio.create_task_group() as group:
        for number in range(first, last):
            group.start_soon(lab.delete, CLAIM_KINDS[number % 2], name_of(number))


def name_of(number: int) -> str:
    """Return the name of a claim."""
    return f"c{number:03}"


async def count_served(lab: Metal3Lab) -> int:
    """Return how many claims have an address."""
    claims = [claim for kind in CLAIM_KINDS for claim in await lab.items(kind)]
    return sum(bool(address_name(claim)) for claim in claims)


async def served(lab: Metal3Lab, count: int) -> None:
    """Wait until so many claims have an address."""
    await until(lambda: count_served(lab), lambda seen: seen >= count)


async def check(lab: Metal3Lab, count: int) -> None:
    """Check that so many claims have addresses, each another one, and one IPAddress each."""

    async def count_addresses() -> int:
        items = [item for kind in CLAIM_KINDS for item in await lab.items(ADDRESS_KINDS[kind])]
        return len(items)

    await until(lambda: count_served(lab), lambda seen: seen == count)
    await until(count_addresses, lambda seen: seen == count)
    given = await lab.given()
    assert [address for address, times in Counter(given.values()).items() if times > 1] == []
    assert len(given) == count


async def test_two_live_processes_never_give_an_address_twice_while_claims_come_and_go(
    lab: Metal3Lab, server: Server, tmp_path: Path
) -> None:
    await lab.pool("p", {"subnet": "10.0.0.0/24"})
    log = tmp_path / "log"
    with product("metal3", server.kubeconfig, log, program=installed) as other:
        await until(lambda: _read(log), lambda text: "Serving claims of IPPools" in text)
        await create_claims(lab, 0, 50)
        await served(lab, 50)
        for number in range(3):
            first, process = 50 + 40 * number, (server.process, other)[number % 2]
            async with anyio.create_task_group() as group:
                group.start_soon(delete_claims, lab, first - 40, first)
                group.start_soon(create_claims, lab, first, first + 40)
                await served(lab, 15)
                with frozen(process):
                    await until(lambda: count_served(lab), lambda seen: seen >= 50)
            await check(lab, 50)
        assert (other.poll(), server.process.poll()) == (None, None)


async def _read(path: Path) -> str:
    return await anyio.Path(path).read_text(encoding="utf-8")
