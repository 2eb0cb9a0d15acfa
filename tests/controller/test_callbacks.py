"""Functions of users that are async, or that return values of a wrong type."""

import asyncio
import gc
import math
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from controller.cache import Cache, Change
from controller.callbacks import check_plain, name_function
from controller.clusters import ClusterKind
from controller.health import Check, Failing, run_checks
from controller.informer import Informer
from controller.loggers import add_fields
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.outcome import SETTLED, Again, Outcome
from controller.queueorder import ReadyLevels
from controller.resource import Scope
from controller.runner import Controller
from controller.shards import Partition, Shards
from controller.supervisor import call_guarded
from controller.triggers import ClusterWatch, Watch, to_self
from controller.webhooks.answers import Allowed
from controller.webhooks.webhook import Webhook
from controller.workqueue import WorkQueue
from tests.clock import VirtualClock, settle
from tests.controller.scripted import ScriptedTransport
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS, Widget, build_widget

pytestmark = pytest.mark.survives_bugs

A, B = Key("default", "a"), Key("default", "b")


async def answer_later(*_: object) -> Any:
    """Stand for an async function where a plain one is needed."""
    return True


async def yield_later(*_: object) -> AsyncIterator[Key]:
    """Stand for an async generator where a plain function is needed."""
    yield A


class AnswerLater:
    """An object that is called like an async function."""

    async def __call__(self, *_: object) -> bool:
        return True


ASYNC_FUNCTIONS: list[Any] = [
    answer_later,
    yield_later,
    partial(answer_later, 1),
    partial(partial(answer_later, 1), 2),
    AnswerLater(),
    partial(AnswerLater(), 1),
    AnswerLater().__call__,
]


async def reconcile(_: Key) -> Outcome:
    return SETTLED


def create_informer() -> Informer[Widget]:
    return Informer(WIDGETS, ScriptedTransport([]), VirtualClock())


def create_controller(**functions: Any) -> Controller:
    manager = Manager(StoreTransport(Store()), clock=VirtualClock())
    watch = Watch(manager.get_informer(WIDGETS), to_self)
    return manager.add_controller("widget", reconcile, watches=[watch], **functions)


REGISTRATIONS: dict[str, Callable[[Any], object]] = {
    "mapping": lambda function: Watch(create_informer(), function),
    "predicate": lambda function: Watch(create_informer(), to_self, function),
    "delay": lambda function: Watch(create_informer(), to_self, delay=function),
    "cluster mapping": lambda function: ClusterWatch(create_cluster_kind(), function),
    "cluster predicate": lambda function: ClusterWatch(
        create_cluster_kind(), take_two_arguments, function
    ),
    "index": lambda function: Cache(WIDGETS, indexes={"color": function}),
    "handler": lambda function: create_informer().add_handler(function),
    "handler of clusters": lambda function: create_cluster_kind().add_handler(function),
    "group": lambda function: create_controller(group=function),
    "shard_by": lambda function: create_controller(shard_by=function),
    "forget": lambda function: create_controller(forget=function),
    "health check": lambda function: Check("ours", function),
}
"""Each place that takes a plain function of a user, as a call that registers the function."""


def take_two_arguments(_: Key, obj: Widget) -> list[Key]:
    return [obj.metadata.key]


def create_cluster_kind() -> ClusterKind[Widget]:
    return ClusterKind(WIDGETS, Scope(), indexes={}, mark_used=lambda _: None)


@pytest.mark.parametrize("register", REGISTRATIONS.values(), ids=REGISTRATIONS)
@pytest.mark.parametrize("function", ASYNC_FUNCTIONS, ids=range(len(ASYNC_FUNCTIONS)))
def test_an_async_function_is_refused_when_it_is_registered(
    register: Callable[[Any], object], function: Any
) -> None:
    with pytest.raises(TypeError, match=r"(?i)later.* must be a plain function, not an `async"):
        register(function)


@pytest.mark.parametrize("register", REGISTRATIONS.values(), ids=REGISTRATIONS)
def test_a_value_that_cannot_be_called_is_refused_when_it_is_registered(
    register: Callable[[Any], object],
) -> None:
    with pytest.raises(TypeError, match=r"must be a function, not 'metadata\.name'"):
        register("metadata.name")


@pytest.mark.parametrize(
    "register",
    [
        lambda function: Manager(StoreTransport(Store())).add_service("ours", function),
        lambda function: Controller("ours", function, queue=WorkQueue[Key](VirtualClock())),
        lambda function: Webhook("/ours", function, Widget),
    ],
    ids=["service", "reconciler", "webhook"],
)
def test_a_value_that_cannot_be_called_is_refused_where_an_async_function_is_needed(
    register: Callable[[Any], object],
) -> None:
    with pytest.raises(TypeError, match=r"ours must be an `async def`, not 'metadata\.name'"):
        register("metadata.name")


def test_plain_functions_methods_classes_and_partials_are_accepted() -> None:
    for function in (to_self, partial(to_self), str, "".join, lambda _: None, int.from_bytes):
        check_plain(function, "a function", "object")
    check_plain(Watch.connect, "a method", "watch", "queue")
    check_plain(lambda: None, "a function")


def test_a_function_is_named_with_its_module() -> None:
    module = __name__
    assert name_function(to_self) == "controller.triggers.to_self"
    assert name_function(partial(partial(reconcile), A)) == f"{module}.reconcile"
    assert name_function(AnswerLater()) == f"{module}.AnswerLater"
    assert name_function(AnswerLater().__call__) == f"{module}.AnswerLater.__call__"


class Harness:
    """A manager with one controller, whose mapping, predicate and delay a test replaces."""

    def __init__(self, shards: int = 0) -> None:
        self.clock, self.store = VirtualClock(), Store()
        options = ManagerOptions(shards=shards, leader_elect=bool(shards), lease_namespace="d")
        self.manager = Manager(StoreTransport(self.store), clock=self.clock, options=options)
        self.mapping: Callable[[Widget], Any] = to_self
        self.predicate: Callable[[Change[Any]], Any] = lambda _: True
        self.delay: Callable[[Change[Any]], Any] = lambda _: 0.0
        self.reconciled: list[str] = []
        widgets = self.manager.get_informer(WIDGETS)
        self.controller = self.manager.add_controller(
            "widget",
            self.reconcile,
            watches=[
                Watch(
                    widgets,
                    lambda obj: self.mapping(obj),  # noqa: PLW0108 - replaced later
                    lambda change: self.predicate(change),  # noqa: PLW0108 - replaced later
                    delay=lambda change: self.delay(change),  # noqa: PLW0108 - replaced later
                )
            ],
        )

    async def reconcile(self, key: Key) -> Outcome:
        self.reconciled.append(key.name)
        return SETTLED

    def put(self, name: str) -> None:
        path = f"/apis/example.com/v1/namespaces/default/widgets/{name}"
        self.store.put(path, {"metadata": {"name": name, "namespace": "default"}})

    def count_undelivered(self) -> float | None:
        return self.manager.metrics.registry.get_sample_value(
            "controller_undelivered_changes_total", {"resource": "widgets.example.com"}
        )


def yield_key_and_text(_: Widget) -> Iterator[Any]:
    yield A
    yield "default/a"


def return_coroutine(_: object) -> Any:
    return answer_later()


WRONG_RESULTS: list[tuple[str, Callable[..., Any], str]] = [
    ("mapping", lambda obj: obj.metadata.key, "returned the single key default/a"),
    ("mapping", lambda obj: obj.metadata.name, "returned 'a'"),
    ("mapping", lambda _: None, "returned None: return a collection of keys"),
    ("mapping", lambda _: [("default", "a")], "returned ('default', 'a') among its keys"),
    ("mapping", lambda _: [Key("default", None)], "among its keys"),  # type: ignore[arg-type]
    ("mapping", lambda _: {A: 1}, "return a collection of keys"),
    ("mapping", yield_key_and_text, "returned 'default/a' among its keys"),
    ("mapping", return_coroutine, "which nothing awaits"),
    ("mapping", lambda _: yield_later(), "which nothing awaits"),
    ("predicate", lambda _: None, "returned None: return True or False"),
    ("predicate", return_coroutine, "which nothing awaits"),
    ("delay", lambda _: None, "returned None: return seconds"),
    ("delay", lambda _: True, "returned True: return seconds"),
    ("delay", lambda _: math.nan, "returned nan: return seconds from 0 on"),
    ("delay", lambda _: -1, "returned -1: return seconds from 0 on"),
    ("delay", return_coroutine, "which nothing awaits"),
]
"""A function of Harness, a replacement that returns a wrong value, and a part of its error."""


@pytest.mark.parametrize(("role", "function", "message"), WRONG_RESULTS)
async def test_a_change_for_which_a_function_returns_a_wrong_result_is_delivered_again(
    role: str, function: Callable[..., Any], message: str
) -> None:
    harness = Harness()
    working_function = getattr(harness, role)
    with capture_logs() as lines, warnings.catch_warnings():
        warnings.simplefilter("error")
        async with anyio.create_task_group() as group:
            group.start_soon(harness.manager.run)
            await harness.clock.advance(0)
            setattr(harness, role, function)
            harness.put("a")
            await harness.clock.advance(0)
            assert harness.reconciled == []
            assert harness.count_undelivered() == 1
            setattr(harness, role, working_function)
            harness.put("b")
            await harness.clock.advance(0)
            assert harness.reconciled == ["b"], "other objects are reconciled meanwhile"
            await harness.clock.advance(30)
            assert harness.reconciled == ["b", "a"]
            harness.manager.stop()
        gc.collect()  # a coroutine that was never awaited warns when it goes
    raised = [line for line in lines if line["event"] == "event handler raised"]
    (line,) = raised
    assert isinstance(line["exc_info"], TypeError | ValueError)
    assert message in str(line["exc_info"])


class ObjectWithoutRepr:
    """An object that has no representation."""

    @override
    def __repr__(self) -> str:
        raise RuntimeError("no representation")


class ErrorWithoutRepr(ObjectWithoutRepr, Exception):
    """An error that has no representation."""


def create_raising_function(error: BaseException) -> Callable[..., Any]:
    def function(*_: object) -> Any:
        raise error

    return function


def yield_key_and_cancel(*_: object) -> Iterator[Any]:
    yield A
    raise asyncio.CancelledError


BROKEN_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cancellation": create_raising_function(asyncio.CancelledError()),
    "end of a generator": create_raising_function(GeneratorExit()),
    "group of errors": create_raising_function(BaseExceptionGroup("two", [GeneratorExit()])),
    "error that cannot be shown": create_raising_function(ErrorWithoutRepr()),
    "value that cannot be shown": lambda *_: ObjectWithoutRepr(),
    "generator that is cancelled midway": yield_key_and_cancel,
}
"""Functions that raise errors of unusual kinds, or return a value that cannot be logged."""


@pytest.mark.parametrize("role", ["mapping", "predicate", "delay"])
@pytest.mark.parametrize("function", BROKEN_FUNCTIONS.values(), ids=BROKEN_FUNCTIONS)
async def test_a_change_for_which_a_function_is_broken_is_delivered_again(
    role: str, function: Callable[..., Any]
) -> None:
    harness = Harness()
    working_function = getattr(harness, role)
    with capture_logs() as lines:
        async with anyio.create_task_group() as group:
            group.start_soon(harness.manager.run)
            await harness.clock.advance(0)
            setattr(harness, role, function)
            harness.put("a")
            await harness.clock.advance(0)
            setattr(harness, role, working_function)
            harness.put("b")
            await harness.clock.advance(30)
            assert harness.reconciled == ["b", "a"]
            harness.manager.stop()
    assert [line["event"] for line in lines if line["log_level"] == "error"] == [
        "event handler raised"
    ]


@pytest.mark.parametrize("function", BROKEN_FUNCTIONS.values(), ids=BROKEN_FUNCTIONS)
async def test_broken_index_group_and_check_functions_end_no_caller(
    function: Callable[..., Any],
) -> None:
    cache = Cache(WIDGETS, indexes={"color": function})
    levels = ReadyLevels[Key](group=function)
    with capture_logs():
        cache.replace([build_widget("a", 1)], 1)
        levels.push(A, 0, 0.0)
    assert "index 'color' raised" in cache.unreadable[A]
    assert levels.pop(1.0) is not None
    page = run_checks("readyz", [Check("ours", function)], verbose=True)
    assert not page.is_healthy
    assert page.body.startswith("[-]ours failed: the check ")


@pytest.mark.parametrize("result", [True, False, "broken", 0])
def test_a_check_with_a_wrong_result_fails_by_itself(result: Any) -> None:
    def check() -> Any:
        return result

    reason = f"{name_function(check)} returned {result!r}: return None or a Failing"
    checks = [Check("ours", check), Check("other", lambda: Failing("it", "broke"))]
    assert run_checks("readyz", checks, verbose=True).body.splitlines() == [
        f"[-]ours failed: the check returned a wrong result: {reason}",
        "[-]other failed: it: broke",
        "readyz check failed",
    ]


class UnhashableHandler:
    """A handler that cannot be the key of a dict, and raises until it is repaired."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.broken = True
        self.keys: list[Key] = []

    @override
    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, change: Change[Widget]) -> None:
        if self.broken:
            raise ValueError("broken")
        assert change.new is not None
        self.keys.append(change.new.metadata.key)


async def test_a_handler_that_cannot_be_hashed_gets_the_object_again() -> None:
    store, clock = Store(), VirtualClock()
    store.put("/apis/example.com/v1/namespaces/default/widgets/a", {"metadata": {"name": "a"}})
    informer = Informer(WIDGETS, StoreTransport(store), clock)
    handler = UnhashableHandler()
    first_registration = informer.add_handler(handler)
    informer.add_handler(handler)
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        with capture_logs() as lines:
            await clock.advance(0)
        assert [line["event"] for line in lines] == ["event handler raised"] * 2
        handler.broken = False
        first_registration.close()
        await clock.advance(30)
        group.cancel_scope.cancel()
    assert len(handler.keys) == 1, "the open registration of the handler gets the object again"


@pytest.mark.parametrize("values", [[1], [None], {"red": 1}, b"red", [["red"]], [{}]])
def test_an_object_is_unreadable_if_its_index_values_are_no_strings(values: Any) -> None:
    def colors(_: Widget) -> Any:
        return values

    cache = Cache(WIDGETS, indexes={"color": colors})
    cache.replace([build_widget("a", 1)], 1)
    assert f"{__name__}." in cache.unreadable[A]
    assert "colors returned" in cache.unreadable[A]


def test_keys_are_queued_though_the_group_function_returns_a_coroutine() -> None:
    levels = ReadyLevels[Key](group=return_coroutine)
    with capture_logs() as lines:
        levels.push(A, 0, 0.0)
        levels.push(B, 0, 0.0)
    taken_out = [levels.pop(1.0) for _ in range(2)]
    assert [ready.key for ready in taken_out if ready is not None] == [A, B]
    assert {line["event"] for line in lines} == {"group function raised"}


async def test_a_handler_that_returns_a_coroutine_is_logged_as_raising() -> None:
    informer = create_informer()
    with capture_logs() as lines:
        informer.add_handler(return_coroutine)
        informer.cache.replace([build_widget("a", 1)], 1)
    assert [line["event"] for line in lines] == ["event handler raised"]
    assert "return_coroutine returned" in str(lines[0]["exc_info"])


async def reconcile_to_coroutine(_: Key) -> Any:
    return answer_later()


async def reconcile_to_long_delay(_: Key) -> Outcome:
    return Again(1e300)


@pytest.mark.parametrize(
    ("reconcile_with_odd_outcome", "event"),
    [
        (reconcile_to_coroutine, "Reconciler panic"),
        (reconcile_to_long_delay, "Reconciled, requeued"),
    ],
)
@pytest.mark.parametrize("timeout", [None, 5.0])
async def test_a_controller_survives_an_odd_outcome_and_leaves_no_coroutine(
    reconcile_with_odd_outcome: Callable[[Key], Any], event: str, timeout: float | None
) -> None:
    clock = VirtualClock()
    queue = WorkQueue[Key](clock)
    controller = Controller(
        "odd", reconcile_with_odd_outcome, queue=queue, timeout_seconds=timeout
    )
    with capture_logs() as lines, warnings.catch_warnings():
        warnings.simplefilter("error")
        async with anyio.create_task_group() as group:
            group.start_soon(controller.run)
            queue.add(A)
            await clock.advance(1)
            queue.shut_down(drain=False)
            controller.stop()
        gc.collect()
    assert event in {line["event"] for line in lines}


class ShardByHarness:
    """A controller whose shard_by returns or raises `result` for the key A."""

    def __init__(self, result: object) -> None:
        self.clock = VirtualClock()
        self.queue = WorkQueue[Key](self.clock)
        self.reconciled: list[Key] = []
        self.result: object = result
        shards = Shards(1)
        shards.held.add(0)
        partition = Partition(shards, self.shard_by)
        self.controller = Controller("test", self.reconcile, queue=self.queue, partition=partition)

    def shard_by(self, key: Key) -> Any:
        if key == A and isinstance(self.result, Exception):
            raise self.result
        return self.result if key == A else key

    async def reconcile(self, key: Key) -> Outcome:
        self.reconciled.append(key)
        return SETTLED


@pytest.mark.parametrize("result", ["default", 5, ZeroDivisionError()])
async def test_a_shard_by_that_fails_is_an_error_of_its_key_which_is_retried(
    result: object,
) -> None:
    harness = ShardByHarness(result)
    async with anyio.create_task_group() as group:
        group.start_soon(harness.controller.run)
        harness.queue.add(A)
        harness.queue.add(B)
        with capture_logs(processors=[add_fields]) as lines:
            await harness.clock.advance(1)
        assert harness.reconciled == [B]
        errors = [line for line in lines if line["log_level"] == "error"]
        assert errors
        assert errors[0]["name"] == "a"
        harness.result = B
        await harness.clock.advance(2)
        assert harness.reconciled == [B, A]
        harness.controller.stop()


async def test_a_value_in_the_queue_that_is_no_key_is_dropped_and_others_are_reconciled() -> None:
    harness = ShardByHarness(A)
    async with anyio.create_task_group() as group:
        group.start_soon(harness.controller.run)
        no_key: Any = "default/a"
        harness.queue.add(no_key)
        harness.queue.add(B)
        with capture_logs() as lines:
            await settle()
        assert harness.reconciled == [B]
        assert [line["value"] for line in lines if line["log_level"] == "error"] == [repr(no_key)]
        harness.controller.stop()


async def test_a_guarded_call_of_a_plain_function_raises_an_error_with_its_name() -> None:
    def serve() -> Any:
        return None

    with pytest.raises(TypeError, match=r"serve must be an `async def`: it returned None"):
        await call_guarded(serve)


async def test_an_exception_of_a_guarded_call_is_raised_with_its_own_cause() -> None:
    async def fail() -> None:
        raise OSError("no address")

    async def fail_for_a_reason() -> None:
        try:
            await fail()
        except OSError as error:
            raise ValueError("not connected") from error

    with pytest.raises(OSError, match="no address") as plain:
        await call_guarded(fail)
    assert plain.value.__cause__ is None
    with pytest.raises(ValueError, match="not connected") as explained:
        await call_guarded(fail_for_a_reason)
    assert isinstance(explained.value.__cause__, OSError)


@pytest.mark.parametrize(
    "answer",
    [Allowed, None, Allowed(warnings=[1])],  # type: ignore[list-item]
)
async def test_a_webhook_with_a_wrong_answer_refuses_the_write_and_is_named(answer: Any) -> None:
    async def judge(_: object) -> Any:
        return answer

    body = (
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request":'
        b' {"uid": "u", "operation": "CREATE", "object": {"metadata": {"name": "a"}}}}'
    )
    with capture_logs() as lines:
        webhook = Webhook("/judge", judge, Widget)
        review, has_bug = await webhook.answer(body, VirtualClock(), seconds=9)
    assert has_bug
    assert b'"code":500' in review
    assert [line["event"] for line in lines] == ["Webhook panic", "Admission request answered"]
