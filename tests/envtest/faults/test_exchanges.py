"""What a client meets when a fault is injected into one of its requests."""

import anyio
import msgspec
import pytest

from controller import (
    Client,
    Forbidden,
    Key,
    MalformedAnswer,
    NoAnswer,
    NotFound,
    ServerFailure,
    TooManyRequests,
)
from controller.errors import Expired
from envtest.faults import (
    CutAnswer,
    End,
    GatewayPage,
    LateAnswer,
    LateRequest,
    LostAnswer,
    Match,
    Pause,
    RefusedConnection,
    SlowAnswer,
    refuse_as_expired,
    refuse_as_forbidden,
    refuse_as_internal_error,
    refuse_as_overloaded,
    refuse_as_unavailable,
)
from envtest.faults.fault import Fault
from tests.envtest.samples import PATH, build_gauge
from tests.faults.proxied import GAUGES, LIST, open_transport, run_proxied_plane

A = Key("default", "a")
CREATE = Match(verb="create", resource="gauges", times=1)


async def test_without_faults_everything_passes_unchanged() -> None:
    async with run_proxied_plane() as proxied:
        created = await proxied.client.create(GAUGES, "default", build_gauge("a", count=3))

        assert await proxied.direct.get(GAUGES, A) == created
        assert await proxied.client.get(GAUGES, A) == created
        assert [call.verb for call in proxied.proxy.calls] == ["create", "get"]
        assert len(proxied.proxy.injected) == 0


async def test_users_keep_their_own_rights_behind_the_proxy() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.proxy.add_user("joe")
        async with open_transport(proxied.proxy, "joe") as transport:
            with pytest.raises(Forbidden, match='User "joe" cannot list'):
                await Client(transport).list(GAUGES)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (refuse_as_overloaded(7), TooManyRequests),
        (refuse_as_internal_error(), ServerFailure),
        (refuse_as_unavailable(), ServerFailure),
        (refuse_as_expired(), Expired),
        (refuse_as_forbidden(), Forbidden),
        (GatewayPage(), MalformedAnswer),
        (RefusedConnection(), NoAnswer),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
async def test_a_refused_request_never_ran(fault: Fault, error: type[Exception]) -> None:
    async with run_proxied_plane() as proxied:
        with proxied.proxy.inject(fault, CREATE), pytest.raises(error):
            await proxied.client.create(GAUGES, "default", build_gauge("a"))

        with pytest.raises(NotFound):
            await proxied.direct.get(GAUGES, A)
        await proxied.client.create(GAUGES, "default", build_gauge("a"))
        assert [injected for injected, _ in proxied.proxy.injected] == [fault]


async def test_an_overloaded_server_says_when_to_come_back() -> None:
    async with run_proxied_plane() as proxied:
        with (
            proxied.proxy.inject(refuse_as_overloaded(7), CREATE),
            pytest.raises(TooManyRequests) as e,
        ):
            await proxied.client.create(GAUGES, "default", build_gauge("a"))
        assert e.value.retry_after == 7


async def test_a_lost_answer_is_of_a_request_that_ran() -> None:
    async with run_proxied_plane() as proxied:
        with proxied.proxy.inject(LostAnswer(), CREATE), pytest.raises(NoAnswer):
            await proxied.client.create(GAUGES, "default", build_gauge("a"))

        assert (await proxied.direct.get(GAUGES, A)).metadata.name == "a"


async def test_a_late_answer_is_of_a_request_that_ran_at_once() -> None:
    async with run_proxied_plane() as proxied:
        gate = anyio.Event()
        with proxied.proxy.inject(LateAnswer(Pause(until=gate)), CREATE) as late:
            async with anyio.create_task_group() as group:
                group.start_soon(proxied.client.create, GAUGES, "default", build_gauge("a"))
                await late.affected_calls.wait()
                while not (await proxied.direct.list(GAUGES)).items:
                    assert not gate.is_set()
                gate.set()


async def test_a_late_request_runs_even_if_its_sender_has_gone() -> None:
    async with run_proxied_plane() as proxied:
        gate = anyio.Event()
        with proxied.proxy.inject(LateRequest(Pause(until=gate)), CREATE) as late:
            async with anyio.create_task_group() as group:
                group.start_soon(proxied.client.create, GAUGES, "default", build_gauge("a"))
                await late.affected_calls.wait()
                group.cancel_scope.cancel()
            assert (await proxied.direct.list(GAUGES)).items == ()
            gate.set()
            await proxied.proxy.ended_calls.wait(1)
            assert [
                gauge.metadata.name for gauge in (await proxied.direct.list(GAUGES)).items
            ] == ["a"]


async def test_a_connection_reset_in_the_middle_of_an_answer_gives_no_answer() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        with proxied.proxy.inject(CutAnswer(30), LIST), pytest.raises(NoAnswer):
            await proxied.client.list(GAUGES)


async def test_a_truncated_answer_that_looks_whole_is_malformed() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        fault = CutAnswer(30, end=End.CLOSED)
        with proxied.proxy.inject(fault, LIST), pytest.raises(MalformedAnswer):
            await proxied.client.list(GAUGES)


async def test_an_answer_that_arrives_slowly_is_complete() -> None:
    async with run_proxied_plane() as proxied:
        created = await proxied.create("a")
        with proxied.proxy.inject(SlowAnswer(7), LIST) as slow:
            assert (await proxied.client.list(GAUGES)).items == (created,)
        assert len(slow.affected_calls) == 1


async def test_a_list_can_expire_between_two_pages() -> None:
    async with run_proxied_plane() as proxied:
        for name in "abc":
            await proxied.create(name)
        later = Match(verb="list", where=lambda call: "continue" in call.query)
        with proxied.proxy.inject(refuse_as_expired(), later) as injection:
            first = await proxied.transport.request("GET", PATH, query={"limit": "2"})
            token = msgspec.json.decode(first)["metadata"]["continue"]
            rest = {"limit": "2", "continue": token}
            with pytest.raises(Expired):
                await proxied.transport.request("GET", PATH, query=rest)
        assert [call.query["continue"] for call in injection.affected_calls] == [token]
