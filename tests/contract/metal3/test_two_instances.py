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
from tests.contract.metal3.lab import ADDRESS_KINDS, CLAIM_KINDS, Metal3Lab, get_address_name
from tests.contract.metal3.webhooks import without_webhooks
from tests.contract.product import Server, frozen, product
from tests.numbers import Note
from tests.polling import until
from tests.reconcilers.cli.commands import find_installed_command

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]
ROUNDS = int(os.environ.get("BUTLER_IPAM_TEST_ROUNDS", "3"))
CLAIMS, REPLACED_PER_ROUND = 200, 40
"""The number of claims, and how many of them are deleted and replaced in each round."""

log = get_logger(__name__)


async def create_claims(lab: Metal3Lab, first: int, stop: int) -> None:
    """Create claims `first` to before `stop` at once; odd numbers are IPAddressClaims."""
    async with anyio.create_task_group() as group:
        for number in range(first, stop):
            group.start_soon(lab.create_claim, make_name(number), "p", CLAIM_KINDS[number % 2])


async def delete_claims(lab: Metal3Lab, first: int, stop: int) -> None:
    """Delete claims `first` to before `stop` at once."""
    async with anyio.create_task_group() as group:
        for number in range(first, stop):
            group.start_soon(lab.delete, CLAIM_KINDS[number % 2], make_name(number))


def make_name(number: int) -> str:
    """Return the name of the claim of a number."""
    return f"c{number:05}"


async def count_served(lab: Metal3Lab, first: int = 0) -> int:
    """Return how many of the claims from number `first` on have an address."""
    claims = [claim for kind in CLAIM_KINDS for claim in await lab.list_objects(kind)]
    new = (claim for claim in claims if claim["metadata"]["name"] >= make_name(first))
    return sum(bool(get_address_name(claim)) for claim in new)


async def wait_until_served(lab: Metal3Lab, count: int, first: int = 0) -> None:
    """Wait until `count` of the claims from number `first` on have an address."""
    await until(lambda: count_served(lab, first), lambda seen: seen >= count)


async def wait_for_different_addresses(lab: Metal3Lab, count: int) -> None:
    """Wait until `count` claims have different addresses, and one IPAddress each.

    A process that was frozen may create one IPAddress too many, which is deleted after a minute.
    """

    async def count_addresses() -> int:
        items = [
            item for kind in CLAIM_KINDS for item in await lab.list_objects(ADDRESS_KINDS[kind])
        ]
        return len(items)

    await until(lambda: count_served(lab), lambda seen: seen == count)
    await until(count_addresses, lambda seen: seen == count)
    address_by_claim = await lab.read_addresses()
    assert [
        address for address, times in Counter(address_by_claim.values()).items() if times > 1
    ] == []
    assert len(address_by_claim) == count


@without_webhooks
async def test_two_live_processes_never_give_an_address_twice_while_claims_come_and_go(
    lab: Metal3Lab, server: Server, tmp_path: Path, record_property: Note
) -> None:
    await lab.create_pool("p", {"subnet": "10.0.0.0/23"}, prefix=23)
    output, history = tmp_path / "log", ClaimHistory()
    with product("metal3", server.kubeconfig, output, program=find_installed_command) as other:
        await until(lambda: _read(output), lambda log: "Serving claims of IPPools" in log)
        async with anyio.create_task_group() as watches:
            watches.start_soon(history.follow, lab)
            await create_claims(lab, 0, CLAIMS)
            await wait_until_served(lab, CLAIMS)
            for number in range(ROUNDS):
                process = (server.process, other)[number % 2]
                await replace_claims(lab, REPLACED_PER_ROUND * number, process)
                assert history.list_findings() == []
                log.info("round", number=number + 1)
            await wait_for_different_addresses(lab, CLAIMS)
            for kind in CLAIM_KINDS:
                await lab.create_claim("last", "p", kind)
                await history.wait_until_seen(kind, "last")
            watches.cancel_scope.cancel()
        assert (other.poll(), server.process.poll()) == (None, None)
    assert history.list_findings() == []
    record_property(
        "claims that came and went", f"{ROUNDS} rounds, {REPLACED_PER_ROUND * ROUNDS} claims"
    )


async def replace_claims(lab: Metal3Lab, first: int, process: Any) -> None:
    """Delete REPLACED_PER_ROUND claims and create as many, with a process frozen in the middle.

    Args:
        lab: the objects.
        first: the number of the first claim to delete.
        process: freezes after a quarter of the new claims is served.
    """
    new = first + CLAIMS
    async with anyio.create_task_group() as group:
        group.start_soon(delete_claims, lab, first, first + REPLACED_PER_ROUND)
        group.start_soon(create_claims, lab, new, new + REPLACED_PER_ROUND)
        await wait_until_served(lab, REPLACED_PER_ROUND // 4, new)
        with frozen(process):
            await wait_until_served(lab, REPLACED_PER_ROUND, new)
    await until(lambda: count_served(lab), lambda seen: seen == CLAIMS)


async def _read(path: Path) -> str:
    """Return the content of a file."""
    return await anyio.Path(path).read_text(encoding="utf-8")
