"""The handler of a webhook: when it calls the rules, and how it words their verdict."""

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

DENIAL = Verdict.from_causes([build_forbidden_cause(("spec", "cidr"), "no")], ["mind"])
Json = dict[str, Any]


class DenyingRules:
    """Rules that deny each request.

    Attributes:
        asked: the event of each request, with the old object as it was decoded.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, NetworkPool | None]] = []

    async def review_creation(self, new: NetworkPool) -> Verdict:
        self.asked.append(("created", None))
        return DENIAL

    async def review_update(self, new: NetworkPool, old: NetworkPool | None) -> Verdict:
        self.asked.append(("updated", old))
        return DENIAL

    async def review_deletion(self, old: NetworkPool) -> Verdict:
        self.asked.append(("deleted", old))
        return DENIAL


def make_body(spec: Any, **metadata: Any) -> Json:
    """Return the JSON document of the pool `lab`."""
    return {"metadata": make.metadata("lab", **metadata), "spec": spec}


VALID = make_body({"cidr": "10.0.0.0/24"})
OTHER = make_body({"cidr": "10.0.0.0/23"})
UNDECODABLE = make_body({"cidr": 7})
TERMINATING = make_body({"cidr": "10.0.0.0/24"}, deletionTimestamp="2026-01-01T00:00:00Z")


async def send_request(
    operation: Any, new: Json | None = None, old: Json | None = None, subresource: str = ""
) -> tuple[Answer, DenyingRules]:
    """Return the answer of the handler to a request, and the rules that it called."""
    rules = DenyingRules()
    request: AdmissionRequest[bytes] = AdmissionRequest(
        uid="1",
        kind=GroupVersionKind(names.GROUP, names.VERSION, "NetworkPool"),
        resource=GroupVersionResource(names.GROUP, names.VERSION, "networkpools"),
        operation=operation,
        subResource=subresource,
        name="lab",
        namespace=make.NAMESPACE,
        objectBytes=msgspec.json.encode(new) if new else b"",
        oldObjectBytes=msgspec.json.encode(old) if old else b"",
    )
    return await make_handler(NETWORK_POOL, rules)(request), rules


@pytest.mark.parametrize(
    ("operation", "new", "old", "subresource"),
    [
        ("UPDATE", VALID, VALID, ""),
        ("UPDATE", make_body({"cidr": "10.0.0.0/24"}, labels={"a": "b"}), VALID, ""),
        ("UPDATE", make_body({"cidr": 7}, finalizers=[]), UNDECODABLE, ""),
        ("UPDATE", {"metadata": make.metadata("lab")}, {"metadata": make.metadata("lab")}, ""),
        ("UPDATE", OTHER, VALID, "status"),
        ("UPDATE", TERMINATING, VALID, ""),
        ("DELETE", None, TERMINATING, ""),
        ("DELETE", None, UNDECODABLE, ""),
        ("DELETE", None, None, ""),
    ],
    ids=[
        "nothing changes",
        "labels change",
        "an undecodable object loses its finalizers",
        "there is no spec",
        "the status is written",
        "the deletion begins",
        "an object that is being deleted is deleted",
        "an undecodable object is deleted",
        "a collection is deleted",
    ],
)
async def test_the_rules_are_not_called_for_statuses_metadata_and_terminating_objects(
    operation: str, new: Json | None, old: Json | None, subresource: str
) -> None:
    answer, rules = await send_request(operation, new, old=old, subresource=subresource)
    assert isinstance(answer, Allowed)
    assert rules.asked == []


@pytest.mark.parametrize(
    ("operation", "new", "old", "asked"),
    [
        ("CREATE", VALID, None, "created"),
        ("UPDATE", OTHER, VALID, "updated"),
        ("UPDATE", OTHER, TERMINATING, "updated"),
        ("DELETE", None, VALID, "deleted"),
    ],
)
async def test_the_rules_are_called_for_creations_changed_specs_and_deletions(
    operation: str, new: Json | None, old: Json | None, asked: str
) -> None:
    answer, rules = await send_request(operation, new, old)
    assert isinstance(answer, Denied)
    assert [operation for operation, _ in rules.asked] == [asked]
    assert (answer.causes, answer.warnings) == (DENIAL.causes, DENIAL.warnings)


async def test_an_update_of_an_undecodable_object_is_judged_without_the_old_object() -> None:
    _, rules = await send_request("UPDATE", VALID, UNDECODABLE)
    assert rules.asked == [("updated", None)]


async def test_an_object_that_cannot_be_decoded_is_denied() -> None:
    for operation, old in (("CREATE", None), ("UPDATE", VALID)):
        answer, rules = await send_request(operation, UNDECODABLE, old)
        assert isinstance(answer, Denied)
        assert "it cannot be read as a NetworkPool" in answer.message
        assert rules.asked == []


async def test_denials_are_worded_like_those_of_the_api_server() -> None:
    answer, _ = await send_request("CREATE", VALID)
    assert isinstance(answer, Denied)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message == ('NetworkPool.butler.butlerlabs.dev "lab" is invalid: spec.cidr: no')
    answer, _ = await send_request("DELETE", None, VALID)
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
