"""The Ready message of an allocation says how its range was chosen.

The words of the choice are stored with the promise in the pool's journal, so that a replica that
writes another replica's promise reports the same.
"""

from typing import Any

import pytest

from controller.errors import ServerFailure
from controller.meta import Key
from reconcilers.addressing import poolgeometry
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.networkpool import protocol
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.pending_promises import render_allocated
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.promises.journal import Journal
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

SECOND = {"cidr": "fd00::/120"}
REQUIRE = {"ipFamilyPolicy": "RequireDualStack"}


def _render_message(pool: Any, *allocations: Any) -> str:
    """Return the Ready message that the only waiting allocation gets."""
    geometry = poolgeometry.parse_layouts(pool.spec, 1 << 20)
    [grant] = protocol.decide(
        pool, make.view(*allocations), geometry=geometry, batch=256
    ).choice.grants
    assert isinstance(grant.asker, IPAllocation)
    written = render_allocated(
        grant.asker, pool, ranges=grant.addresses, now=make.EPOCH, choice=grant.choice
    )
    message: str = written["conditions"][0]["message"]
    return message


def test_the_message_names_pool_block_and_candidates() -> None:
    # 10.40.0.8 to .15, .32 to .47 and .64 on are free: the first does not fit.
    holders = [
        make.allocation("a", held_range=("10.40.0.0", "10.40.0.7")),
        make.allocation("b", held_range=("10.40.0.16", "10.40.0.31")),
        make.allocation("c", held_range=("10.40.0.48", "10.40.0.63")),
    ]
    assert _render_message(make.pool(), *holders, make.allocation("d", size=12)) == (
        "allocated 12 IPs: 10.40.0.32-10.40.0.43 from lab, out of the smallest free block that"
        " fits (16 addresses; 2 blocks fitted)"
    )


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ({"pin": ("10.40.0.4", "10.40.0.7")}, "10.40.0.4/30 from lab, as pinned"),
        (
            {"prefix": 28},
            "10.40.0.0/28 from lab, out of the smallest free block that has a /28 (256 addresses)",
        ),
    ],
)
def test_a_pinned_range_and_a_block_say_how_they_were_chosen(
    asks: dict[str, Any], words: str
) -> None:
    assert _render_message(make.pool(), make.allocation("a", **asks)).partition(": ")[2] == words


def test_each_family_says_how_its_range_was_chosen() -> None:
    message = _render_message(
        make.pool(secondary=SECOND), make.allocation("a", asks=REQUIRE, size=8)
    )
    fits = "out of the smallest free block that fits (256 addresses; 1 block fitted)"
    assert message == (
        f"allocated 8 IPs each: 10.40.0.0/29 and fd00::/125 from lab, IPv4 {fits}, IPv6 {fits}"
    )


def test_a_range_that_was_held_before_has_no_words_of_a_choice() -> None:
    wiped = make.allocation("a", held_range=("10.40.0.0", "10.40.0.7"), phase="Pending")
    assert _render_message(make.pool(), wiped) == "allocated 8 IPs: 10.40.0.0/29 from lab"


async def test_a_replica_that_writes_anothers_promise_repeats_the_words_of_its_choice() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("ipallocations", make.allocation("a", size=8))
    lab.server.fail(ServerFailure(500, "", "dies"), times=9, plural="ipallocations", verb="patch")
    await lab.run_pool_pass()
    [promise] = lab.read_status("networkpools", "lab")["assignments"]
    lab.server.recover()
    lab.server.add(
        "ipallocations", make.allocation("later", held_range=("10.40.0.64", "10.40.0.79"))
    )
    successor = lab.make_replica()
    for _ in range(2):  # a replica writes another one's promise after `foreign_patience`
        await successor.pools.reconcile(Key(make.NAMESPACE, "lab"))
        await lab.clock.advance(lab.settings.pool.foreign_patience)
    await successor.pools.reconcile(Key(make.NAMESPACE, "lab"))
    ready = lab.find_condition("ipallocations", "a", "Ready")
    assert ready["message"] == f"allocated 8 IPs: 10.40.0.0/29 from lab, {promise['choice']}"
    assert "(256 addresses; 1 block fitted)" in promise["choice"]


async def test_the_words_do_not_change_when_the_pool_serves_further_allocations() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("ipallocations", make.allocation("a", size=8))
    await lab.run_pool_pass()
    before = lab.server.see("ipallocations", "a")
    lab.server.add("ipallocations", make.allocation("b", size=8))
    await lab.run_pool_pass()
    await lab.run_pool_pass()
    assert lab.server.see("ipallocations", "a") == before


def test_a_promise_that_was_stored_without_words_is_reported_without_them() -> None:
    allocation = make.allocation("a", size=8)
    promise = make.promise(allocation, "10.40.0.0", "10.40.0.7")
    pool = make.pool(status={"assignments": [make.render_promise(promise)]})
    [stored] = STATUS_JOURNALS.read(pool).promises
    ranges = tuple(part.range for part in stored.ranges)
    written = render_allocated(
        allocation, pool, ranges=ranges, now=make.EPOCH, choice=stored.choice
    )
    assert written["conditions"][0]["message"] == "allocated 8 IPs: 10.40.0.0/29 from lab"


def test_the_words_are_stored_with_the_promise_and_read_again() -> None:
    geometry = poolgeometry.parse_layouts(make.pool().spec, 1 << 20)
    view = make.view(make.allocation("a", size=8))
    decision = protocol.decide(make.pool(), view, geometry=geometry, batch=256)
    [promise] = decision.promises
    stored = make.pool(
        status=STATUS_JOURNALS.build_patch_fields(make.pool(), Journal({KIND: 1}, (promise,)))
    )
    assert STATUS_JOURNALS.read(stored).promises == (promise,)
    assert promise.choice
