"""Elections that can never be won: logged as errors, counted, and not ready."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from controller.errors import ConfigurationError, Forbidden, NotFound, ServerFailure
from controller.leases import LEASES
from controller.options import ManagerOptions
from controller.testing import Request
from tests.controller.candidates import Election, play_election
from tests.controller.sharing import SHARDS, open_room

FORBIDDEN = Forbidden(403, "Forbidden", "leases.coordination.k8s.io is forbidden")
MISSING = NotFound(404, "NotFound", 'namespaces "system" not found')


@contextmanager
def refuse_requests(election: Election, **errors: Exception) -> Iterator[None]:
    """Let the requests of candidate `b` fail, by method."""
    election.b.transport.refused = dict(errors)
    yield
    election.b.transport.refused = {}


def list_errors(logs: list[Any]) -> list[Any]:
    """Return the log lines of level error."""
    return [line for line in logs if line["log_level"] == "error"]


@pytest.mark.parametrize(
    ("errors", "advice"),
    [
        (
            {"GET": FORBIDDEN},
            "grant this process get, create and update on leases of coordination.k8s.io in",
        ),
        (
            {"GET": MISSING, "POST": MISSING},
            "create the namespace system, or configure another one for the lease",
        ),
        (
            {"GET": ServerFailure(500, "InternalError", "etcd has no leader")},
            "see that the API server can be reached and that it accepts the lease",
        ),
    ],
    ids=["forbidden", "no namespace", "server"],
)
async def test_an_election_that_cannot_be_won_is_an_error_in_log_and_readiness(
    errors: dict[str, Exception], advice: str
) -> None:
    election = Election()
    ready = election.b.elector.create_holder_check()
    with capture_logs() as logs, refuse_requests(election, **errors):
        async with anyio.create_task_group() as group:
            group.start_soon(election.b.run)
            await election.clock.advance(4)
            assert list_errors(logs) == []
            assert ready.run() is None
            await election.clock.advance(12)
            (line,) = list_errors(logs)
            assert line["advice"].startswith(advice)
            assert "system" in line["advice"] or "accepts the lease" in line["advice"]
            assert line["lease"] == "system/leader"
            failing = ready.run()
            assert failing is not None
            assert failing.problem == "no process holds the lease"
            assert "system/leader for 16 s: " in failing.why
            assert line["error"] in failing.why
            await election.clock.advance(150)
            assert len(list_errors(logs)) == 3
            assert len([line for line in logs if line["log_level"] == "info"]) < 10
            election.b.transport.refused = {}
            await election.clock.advance(2)
            assert election.b.leads
            assert ready.run() is None
            group.cancel_scope.cancel()


async def test_a_standby_of_a_healthy_leader_is_ready_and_logs_no_error() -> None:
    async def play(election: Election) -> None:
        ready = election.b.elector.create_holder_check()
        for _ in range(60):
            await election.clock.advance(10)
            assert ready.run() is None
        assert election.a.elector.create_holder_check().run() is None

    with capture_logs() as logs:
        await play_election(play)
    assert list_errors(logs) == []


async def test_a_standby_is_ready_while_it_waits_for_a_dead_leaders_lease_to_expire() -> None:
    async def play(election: Election) -> None:
        ready = election.b.elector.create_holder_check()
        election.a.scope.cancel()
        while not election.b.leads:
            await election.clock.advance(1)
            assert ready.run() is None

    await play_election(play)


async def test_a_candidate_that_may_read_the_lease_and_not_write_it_is_not_ready() -> None:
    async def play(election: Election) -> None:
        ready = election.b.elector.create_holder_check()
        election.b.transport.refused = {"PUT": FORBIDDEN}
        await election.clock.advance(60)
        assert ready.run() is None  # the other one holds it
        election.a.scope.cancel()
        await election.clock.advance(60)
        failing = ready.run()
        assert failing is not None
        assert "leases.coordination.k8s.io is forbidden" in failing.why

    await play_election(play)


async def test_a_replica_that_may_not_create_leases_of_shards_is_not_ready() -> None:
    async with open_room() as room:

        def refuse(request: Request) -> None:
            if request.method == "POST" and request.resource == LEASES.full_name:
                raise FORBIDDEN

        room.api.on_request = refuse
        with capture_logs() as logs:
            a = room.start("a")
            await room.let_time_pass(30)
        assert a.held == set()
        assert any("create and update on leases" in line["advice"] for line in list_errors(logs))
        room.api.on_request = None
        await room.let_time_pass(10)
        assert a.held == set(range(SHARDS))


@pytest.mark.parametrize(
    ("namespace", "name", "shards", "message_part"),
    [
        ("Team_A", "leader", 0, "no namespace can be named 'Team_A'"),
        ("a.b", "leader", 0, "no namespace can be named 'a.b'"),
        ("n" * 64, "leader", 0, "no namespace can be named"),
        ("system", "My Operator", 0, "no lease can be named 'My Operator'"),
        ("system", "leader-", 0, "no lease can be named 'leader-'"),
        ("system", "l" * 254, 0, "at most 253 characters"),
        ("system", "l" * 240, 8, "at most 227 characters"),
    ],
)
def test_a_lease_that_no_object_can_be_named_like_is_refused_at_the_start(
    namespace: str, name: str, shards: int, message_part: str
) -> None:
    options = ManagerOptions(
        leader_elect=True, lease_namespace=namespace, lease_name=name, identity="a", shards=shards
    )
    with pytest.raises(ConfigurationError, match=message_part):
        options.create_lease_settings()


def test_names_of_the_greatest_length_are_accepted() -> None:
    for name, shards in (("l" * 253, 0), ("l" * 227, 8)):
        options = ManagerOptions(
            leader_elect=True,
            lease_namespace="n" * 63,
            lease_name=name,
            identity="a",
            shards=shards,
        )
        assert options.create_lease_settings().key.name == name
