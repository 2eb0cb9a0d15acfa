"""Two live processes, frozen in turn, and claims of both kinds that come and go.

    BUTLER_IPAM_TEST_ROUNDS=100 .venv/bin/python -m pytest -n 0 FILE

plays more rounds than the suite does.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from controller.loggers import get_logger
from tests.contract.metal3.history import ClaimHistory
from tests.contract.metal3.lab import ADDRESS_KINDS, CLAIM_KINDS, Metal3Lab, address_name
from tests.contract.product import Server, frozen, product
from tests.numbers import Note
from tests.polling import until
from tests.reconcilers.cli.commands import find_installed_command

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]
ROUNDS = int(os.environ.get("BUTLER_IPAM_TEST_ROUNDS", "3"))
CLAIMS, REPLACED = 200, 40
"""How many claims there are, and how many of them go in each round, while as many come."""

log = get_logger(__name__)


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
    return f"c{number:05}"


async def count_served(lab: Metal3Lab, first: int = 0) -> int:
    """Return how many claims have an address, of those from a number on."""
    claims = [claim for kind in CLAIM_KINDS for claim in await lab.items(kind)]
    new = (claim for claim in claims if claim["metadata"]["name"] >= name_of(first))
    return sum(bool(address_name(claim)) for claim in new)


async def wait_until_served(lab: Metal3Lab, count: int, first: int = 0) -> None:
    """Wait until so many claims have an address, of those from a number on."""
    await until(lambda: count_served(lab, first), lambda seen: seen >= count)


async def check(lab: Metal3Lab, count: int) -> None:
    """Check that so many claims have addresses, each another one, and one IPAddress each.

    A process that was frozen may have created an IPAddress late; it is deleted after a minute.
    """

    async def count_addresses() -> int:
        items = [item for kind in CLAIM_KINDS for item in await lab.items(ADDRESS_KINDS[kind])]
        return len(items)

    await until(lambda: count_served(lab), lambda seen: seen == count)
    await until(count_addresses, lambda seen: seen == count)
    address_by_claim = await lab.read_addresses()
    assert [
        address for address, times in Counter(address_by_claim.values()).items() if times > 1
    ] == []
    assert len(address_by_claim) == count


async def test_two_live_processes_never_give_an_address_twice_while_claims_come_and_go(
    lab: Metal3Lab, server: Server, tmp_path: Path, record_property: Note
) -> None:
    await lab.pool("p", {"subnet": "10.0.0.0/23"}, prefix=23)
    output, history = tmp_path / "log", ClaimHistory()
    with product("metal3", server.kubeconfig, output, program=find_installed_command) as other:
        await until(lambda: _read(output), lambda log: "Serving claims of IPPools" in log)
        async with anyio.create_task_group() as watches:
            watches.start_soon(history.follow, lab)
            await create_claims(lab, 0, CLAIMS)
            await wait_until_served(lab, CLAIMS)
            for number in range(ROUNDS):
                process = (server.process, other)[number % 2]
                await replace_some(lab, REPLACED * number, process)
                assert history.findings() == []
                log.info("round", number=number + 1)
            await check(lab, CLAIMS)
            for kind in CLAIM_KINDS:
                await lab.claim("last", "p", kind)
                await history.wait_until_seen(kind, "last")
            watches.cancel_scope.cancel()
        assert (other.poll(), server.process.poll()) == (None, None)
    assert history.findings() == []
    record_property("claims that came and went", f"{ROUNDS} rounds, {REPLACED * ROUNDS} claims")


async def replace_some(lab: Metal3Lab, first: int, process: Any) -> None:
    """Delete claims and create as many, with a process frozen in the middle.

    Args:
        lab: the objects.
        first: the number of the first claim that is there.
        process: what is frozen.
    """
    new = first + CLAIMS
    async with anyio.create_task_group() as group:
        group.start_soon(delete_claims, lab, first, first + REPLACED)
        group.start_soon(create_claims, lab, new, new + REPLACED)
        await wait_until_served(lab, REPLACED // 4, new)
        with frozen(process):
            await wait_until_served(lab, REPLACED, new)
    await until(lambda: count_served(lab), lambda seen: seen == CLAIMS)


async def _read(path: Path) -> str:
    return await anyio.Path(path).read_text(encoding="utf-8")
