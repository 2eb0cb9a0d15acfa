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
from tests.controller.sharing import SHARDS, run_replica_group

FORBIDDEN = Forbidden(403, "Forbidden", "leases.coordination.k8s.io is forbidden")
MISSING = NotFound(404, "NotFound", 'namespaces "system" not found')


@contextmanager
def fail_requests_of_b(election: Election, **errors: Exception) -> Iterator[None]:
    """Let the requests of candidate `b` fail in the context.

    Args:
        election: the election of the candidate.
        errors: the error to raise, by HTTP method.
    """
    election.b.transport.errors_by_method = dict(errors)
    yield
    election.b.transport.errors_by_method = {}


def list_error_lines(logs: list[Any]) -> list[Any]:
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
    holder_check = election.b.elector.create_holder_check()
    with capture_logs() as logs, fail_requests_of_b(election, **errors):
        async with anyio.create_task_group() as group:
            group.start_soon(election.b.run)
            await election.clock.advance(4)
            assert list_error_lines(logs) == []
            assert holder_check.run() is None
            await election.clock.advance(12)
            (line,) = list_error_lines(logs)
            assert line["advice"].startswith(advice)
            assert "system" in line["advice"] or "accepts the lease" in line["advice"]
            assert line["lease"] == "system/leader"
            failing = holder_check.run()
            assert failing is not None
            assert failing.problem == "no process holds the lease"
            assert "system/leader for 16 s: " in failing.why
            assert line["error"] in failing.why
            await election.clock.advance(150)
            assert len(list_error_lines(logs)) == 3
            assert len([line for line in logs if line["log_level"] == "info"]) < 10
            election.b.transport.errors_by_method = {}
            await election.clock.advance(2)
            assert election.b.is_leading
            assert holder_check.run() is None
            group.cancel_scope.cancel()


async def test_a_standby_of_a_healthy_leader_is_ready_and_logs_no_error() -> None:
    async def play(election: Election) -> None:
        holder_check = election.b.elector.create_holder_check()
        for _ in range(60):
            await election.clock.advance(10)
            assert holder_check.run() is None
        assert election.a.elector.create_holder_check().run() is None

    with capture_logs() as logs:
        await play_election(play)
    assert list_error_lines(logs) == []


async def test_a_standby_is_ready_while_it_waits_for_a_dead_leaders_lease_to_expire() -> None:
    async def play(election: Election) -> None:
        holder_check = election.b.elector.create_holder_check()
        election.a.scope.cancel()
        while not election.b.is_leading:
            await election.clock.advance(1)
            assert holder_check.run() is None

    await play_election(play)


async def test_a_candidate_that_cannot_write_the_lease_is_not_ready_once_the_holder_has_died() -> (
    None
):
    async def play(election: Election) -> None:
        holder_check = election.b.elector.create_holder_check()
        election.b.transport.errors_by_method = {"PUT": FORBIDDEN}
        await election.clock.advance(60)
        assert holder_check.run() is None  # `a` holds the lease
        election.a.scope.cancel()
        await election.clock.advance(60)
        failing = holder_check.run()
        assert failing is not None
        assert "leases.coordination.k8s.io is forbidden" in failing.why

    await play_election(play)


async def test_a_replica_that_may_not_create_leases_of_shards_is_not_ready() -> None:
    async with run_replica_group() as replicas:

        def refuse_lease_creation(request: Request) -> None:
            if request.method == "POST" and request.resource == LEASES.full_name:
                raise FORBIDDEN

        replicas.api.on_request = refuse_lease_creation
        with capture_logs() as logs:
            a = replicas.start("a")
            await replicas.advance_clocks(30)
        assert a.held_shards == set()
        assert any(
            "create and update on leases" in line["advice"] for line in list_error_lines(logs)
        )
        replicas.api.on_request = None
        await replicas.advance_clocks(10)
        assert a.held_shards == set(range(SHARDS))


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
def test_lease_names_and_namespaces_that_kubernetes_does_not_allow_are_refused(
    namespace: str, name: str, shards: int, message_part: str
) -> None:
    options = ManagerOptions(
        leader_elect=True, lease_namespace=namespace, lease_name=name, identity="a", shards=shards
    )
    with pytest.raises(ConfigurationError, match=message_part):
        options.create_lease_settings()


def test_lease_names_and_namespaces_of_the_greatest_length_are_accepted() -> None:
    for name, shards in (("l" * 253, 0), ("l" * 227, 8)):
        options = ManagerOptions(
            leader_elect=True,
            lease_namespace="n" * 63,
            lease_name=name,
            identity="a",
            shards=shards,
        )
        assert options.create_lease_settings().key.name == name
