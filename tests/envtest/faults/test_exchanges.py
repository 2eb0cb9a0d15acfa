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
    async with run_proxied_plane() as here:
        created = await here.client.create(GAUGES, "default", build_gauge("a", count=3))

        assert await here.direct.get(GAUGES, A) == created
        assert await here.client.get(GAUGES, A) == created
        assert [call.verb for call in here.proxy.calls] == ["create", "get"]
        assert len(here.proxy.injected) == 0


async def test_users_keep_their_own_rights_behind_the_proxy() -> None:
    async with run_proxied_plane() as here:
        await here.proxy.add_user("joe")
        async with open_transport(here.proxy, "joe") as transport:
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
    async with run_proxied_plane() as here:
        with here.proxy.inject(fault, CREATE), pytest.raises(error):
            await here.client.create(GAUGES, "default", build_gauge("a"))

        with pytest.raises(NotFound):
            await here.direct.get(GAUGES, A)
        await here.client.create(GAUGES, "default", build_gauge("a"))
        assert [injected for injected, _ in here.proxy.injected] == [fault]


async def test_an_overloaded_server_says_when_to_come_back() -> None:
    async with run_proxied_plane() as here:
        with (
            here.proxy.inject(refuse_as_overloaded(7), CREATE),
            pytest.raises(TooManyRequests) as e,
        ):
            await here.client.create(GAUGES, "default", build_gauge("a"))
        assert e.value.retry_after == 7


async def test_a_lost_answer_is_of_a_request_that_ran() -> None:
    async with run_proxied_plane() as here:
        with here.proxy.inject(LostAnswer(), CREATE), pytest.raises(NoAnswer):
            await here.client.create(GAUGES, "default", build_gauge("a"))

        assert (await here.direct.get(GAUGES, A)).metadata.name == "a"


async def test_a_late_answer_is_of_a_request_that_ran_at_once() -> None:
    async with run_proxied_plane() as here:
        gate = anyio.Event()
        with here.proxy.inject(LateAnswer(Pause(until=gate)), CREATE) as late:
            async with anyio.create_task_group() as group:
                group.start_soon(here.client.create, GAUGES, "default", build_gauge("a"))
                await late.affected_calls.wait()
                while not (await here.direct.list(GAUGES)).items:
                    assert not gate.is_set()
                gate.set()


async def test_a_late_request_runs_even_if_its_sender_has_gone() -> None:
    async with run_proxied_plane() as here:
        gate = anyio.Event()
        with here.proxy.inject(LateRequest(Pause(until=gate)), CREATE) as late:
            async with anyio.create_task_group() as group:
                group.start_soon(here.client.create, GAUGES, "default", build_gauge("a"))
                await late.affected_calls.wait()
                group.cancel_scope.cancel()
            assert (await here.direct.list(GAUGES)).items == ()
            gate.set()
            await here.proxy.done.wait(1)
            assert [gauge.metadata.name for gauge in (await here.direct.list(GAUGES)).items] == [
                "a"
            ]


async def test_a_connection_reset_in_the_middle_of_an_answer_gives_no_answer() -> None:
    async with run_proxied_plane() as here:
        await here.create("a")
        with here.proxy.inject(CutAnswer(30), LIST), pytest.raises(NoAnswer):
            await here.client.list(GAUGES)


async def test_a_truncated_answer_that_looks_whole_is_malformed() -> None:
    async with run_proxied_plane() as here:
        await here.create("a")
        fault = CutAnswer(30, end=End.CLOSED)
        with here.proxy.inject(fault, LIST), pytest.raises(MalformedAnswer):
            await here.client.list(GAUGES)


async def test_an_answer_that_arrives_slowly_is_complete() -> None:
    async with run_proxied_plane() as here:
        created = await here.create("a")
        with here.proxy.inject(SlowAnswer(7), LIST) as slow:
            assert (await here.client.list(GAUGES)).items == (created,)
        assert len(slow.affected_calls) == 1


async def test_a_list_can_expire_between_two_pages() -> None:
    async with run_proxied_plane() as here:
        for name in "abc":
            await here.create(name)
        later = Match(verb="list", where=lambda call: "continue" in call.query)
        with here.proxy.inject(refuse_as_expired(), later) as injection:
            first = await here.transport.request("GET", PATH, query={"limit": "2"})
            token = msgspec.json.decode(first)["metadata"]["continue"]
            rest = {"limit": "2", "continue": token}
            with pytest.raises(Expired):
                await here.transport.request("GET", PATH, query=rest)
        assert [call.query["continue"] for call in injection.affected_calls] == [token]
