"""What is asked of the rules, what is never judged, and how their answer is told."""

from typing import Any

import msgspec
import pytest

from controller.webhooks import AdmissionRequest, Allowed, Answer, Denied
from controller.webhooks.review import GroupVersionKind, GroupVersionResource
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.specrules.verdict import Verdict, build_forbidden_cause
from reconcilers.webhooks.admission import has_same_annotations, has_same_spec, make_handler
from tests.reconcilers import make

NO = Verdict.from_causes([build_forbidden_cause(("spec", "cidr"), "no")], ["mind"])
Json = dict[str, Any]


class Grumpy:
    """Refuses whatever it is asked about, and remembers what that was."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, NetworkPool | None]] = []

    async def review_creation(self, new: NetworkPool) -> Verdict:
        self.asked.append(("created", None))
        return NO

    async def review_update(self, new: NetworkPool, old: NetworkPool | None) -> Verdict:
        self.asked.append(("updated", old))
        return NO

    async def review_deletion(self, old: NetworkPool) -> Verdict:
        self.asked.append(("deleted", old))
        return NO


def body(spec: Any, **metadata: Any) -> Json:
    return {"metadata": make.metadata("lab", **metadata), "spec": spec}


SOUND = body({"cidr": "10.0.0.0/24"})
OTHER = body({"cidr": "10.0.0.0/23"})
ODD = body({"cidr": 7})
LEAVING = body({"cidr": "10.0.0.0/24"}, deletionTimestamp="2026-01-01T00:00:00Z")


async def ask(
    operation: Any, new: Json | None = None, old: Json | None = None, sub: str = ""
) -> tuple[Answer, Grumpy]:
    judge = Grumpy()
    request: AdmissionRequest[bytes] = AdmissionRequest(
        uid="1",
        kind=GroupVersionKind(names.GROUP, names.VERSION, "NetworkPool"),
        resource=GroupVersionResource(names.GROUP, names.VERSION, "networkpools"),
        operation=operation,
        subResource=sub,
        name="lab",
        namespace=make.NAMESPACE,
        objectBytes=msgspec.json.encode(new) if new else b"",
        oldObjectBytes=msgspec.json.encode(old) if old else b"",
    )
    return await make_handler(NETWORK_POOL, judge)(request), judge


@pytest.mark.parametrize(
    ("operation", "new", "old", "sub"),
    [
        ("UPDATE", SOUND, SOUND, ""),
        ("UPDATE", body({"cidr": "10.0.0.0/24"}, labels={"a": "b"}), SOUND, ""),
        ("UPDATE", body({"cidr": 7}, finalizers=[]), ODD, ""),
        ("UPDATE", {"metadata": make.metadata("lab")}, {"metadata": make.metadata("lab")}, ""),
        ("UPDATE", OTHER, SOUND, "status"),
        ("UPDATE", LEAVING, SOUND, ""),
        ("DELETE", None, LEAVING, ""),
        ("DELETE", None, ODD, ""),
        ("DELETE", None, None, ""),
    ],
    ids=[
        "nothing changes",
        "labels change",
        "an unreadable one loses its finalizers",
        "there is no spec",
        "its status is written",
        "it begins to go",
        "it goes already",
        "an unreadable one goes",
        "a whole collection goes",
    ],
)
async def test_writes_of_statuses_metadata_and_terminating_objects_are_not_judged(
    operation: str, new: Json | None, old: Json | None, sub: str
) -> None:
    answer, judge = await ask(operation, new, old=old, sub=sub)
    assert isinstance(answer, Allowed)
    assert judge.asked == []


@pytest.mark.parametrize(
    ("operation", "new", "old", "asked"),
    [
        ("CREATE", SOUND, None, "created"),
        ("UPDATE", OTHER, SOUND, "updated"),
        ("UPDATE", OTHER, LEAVING, "updated"),
        ("DELETE", None, SOUND, "deleted"),
    ],
)
async def test_what_changes_a_spec_or_deletes_is_judged(
    operation: str, new: Json | None, old: Json | None, asked: str
) -> None:
    answer, judge = await ask(operation, new, old)
    assert isinstance(answer, Denied)
    assert [operation for operation, _ in judge.asked] == [asked]
    assert (answer.causes, answer.warnings) == (NO.causes, NO.warnings)


async def test_an_object_that_cannot_be_decoded_may_be_repaired() -> None:
    _, judge = await ask("UPDATE", SOUND, ODD)
    assert judge.asked == [("updated", None)]


async def test_an_object_that_cannot_be_decoded_is_refused() -> None:
    for operation, old in (("CREATE", None), ("UPDATE", SOUND)):
        answer, judge = await ask(operation, ODD, old)
        assert isinstance(answer, Denied)
        assert "it cannot be read as a NetworkPool" in answer.message
        assert judge.asked == []


async def test_refusals_are_worded_as_those_of_the_api_server() -> None:
    answer, _ = await ask("CREATE", SOUND)
    assert isinstance(answer, Denied)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message == ('NetworkPool.butler.butlerlabs.dev "lab" is invalid: spec.cidr: no')
    answer, _ = await ask("DELETE", None, SOUND)
    assert isinstance(answer, Denied)
    assert (answer.code, answer.reason, answer.message) == (403, "Forbidden", "spec.cidr: no")


def test_specs_are_compared_as_values() -> None:
    assert has_same_spec(b'{"spec":{"a":1,"b":[2]}}', b'{"metadata":{},"spec":{"b":[2],"a":1}}')
    assert not has_same_spec(b'{"spec":{"a":1}}', b'{"spec":{"a":2}}')
    assert not has_same_spec(b'{"spec":{}}', b"")
    assert not has_same_spec(b"?", b"?")


def test_only_the_named_annotations_are_compared() -> None:
    old = b'{"metadata":{"annotations":{"asked":"1","other":"x"}}}'
    assert has_same_annotations(b'{"metadata":{"annotations":{"asked":"1"}}}', old, ["asked"])
    assert not has_same_annotations(b'{"metadata":{"annotations":{"asked":"2"}}}', old, ["asked"])
    assert not has_same_annotations(b'{"metadata":{}}', old, ["asked"])
    assert has_same_annotations(b'{"metadata":{}}', old, [])
