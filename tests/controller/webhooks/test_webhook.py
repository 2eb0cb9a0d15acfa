"""One webhook: what its handler sees, what the API server is answered, whatever the request."""

from base64 import b64decode
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.errors import Cause
from controller.webhooks import AdmissionRequest, Allowed, Answer, Denied, Patched, Webhook
from controller.webhooks.webhook import DeadlineExceeded, compute_handler_seconds
from tests.clock import VirtualClock
from tests.controller.webhooks.reviews import UID, allow, ask, build_review, read_response
from tests.controller.widgets import Widget, build_widget, encode_widget


def create_answering_webhook(answer: Any, *, mutating: bool = False) -> Webhook[Widget]:
    async def handle(_: AdmissionRequest[Widget]) -> Answer:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return] # some tests answer nonsense

    return Webhook("/judge", handle, Widget, mutating=mutating)


async def read_request(body: bytes) -> AdmissionRequest[Widget]:
    requests: list[AdmissionRequest[Widget]] = []

    async def handle(request: AdmissionRequest[Widget]) -> Answer:
        requests.append(request)
        return Allowed()

    await ask(Webhook("/judge", handle, Widget), body)
    return requests[0]


async def test_a_handler_sees_the_write_typed_and_as_bytes() -> None:
    request = await read_request(
        build_review(
            operation="UPDATE", oldObject=encode_widget(build_widget("a", 1, color="blue"))
        )
    )
    assert (request.uid, request.operation, str(request.key)) == (UID, "UPDATE", "default/a")
    assert request.kind.kind == "Widget"
    assert request.resource.resource == "widgets"
    assert request.userInfo.username == "alice"
    assert request.object is not None
    assert request.oldObject is not None
    assert (request.object.spec.color, request.oldObject.spec.color) == ("red", "blue")
    assert msgspec.json.decode(request.objectBytes)["metadata"]["managedFields"]
    assert request.options["kind"] == "CreateOptions"


async def test_a_deletion_has_only_the_stored_object() -> None:
    request = await read_request(
        build_review(
            operation="DELETE", object=None, oldObject=encode_widget(build_widget("a", 1))
        )
    )
    assert request.object is None
    assert request.objectBytes == b""
    assert request.oldObject is not None


async def test_a_webhook_of_bytes_gets_the_json_itself() -> None:
    async def handle(request: AdmissionRequest[bytes]) -> Answer:
        return Denied((request.object or b"").decode())

    answered = await read_response(
        Webhook("/judge", handle, bytes), build_review(object={"any": [1]})
    )
    assert answered["status"]["message"] == '{"any":[1]}'


async def test_the_answer_repeats_the_uid_and_the_version_of_the_review() -> None:
    for version in ("v1", "v1beta1"):
        answer = await ask(Webhook("/judge", allow, Widget), build_review(version))
        assert answer["apiVersion"] == f"admission.k8s.io/{version}"
        assert (answer["response"]["uid"], answer["response"]["allowed"]) == (UID, True)


async def test_a_refusal_names_the_object_and_every_field_at_fault() -> None:
    causes = [Cause("spec.size", "FieldValueInvalid", "must be even")]
    answered = await read_response(
        create_answering_webhook(Denied.invalid("size is odd", *causes)), build_review()
    )
    assert answered["allowed"] is False
    status = answered["status"]
    assert (status["code"], status["reason"], status["message"]) == (422, "Invalid", "size is odd")
    assert status["details"] == {
        "name": "a",
        "group": "example.com",
        "kind": "Widget",
        "causes": [
            {"reason": "FieldValueInvalid", "message": "must be even", "field": "spec.size"}
        ],
    }


async def test_an_invalid_write_without_causes_is_refused_so_that_kubectl_shows_the_message() -> (
    None
):
    answered = await read_response(
        create_answering_webhook(Denied.invalid("size is odd")), build_review()
    )
    status = answered["status"]
    assert (status["reason"], status["message"]) == ("Invalid", "size is odd")
    assert status["details"] == {}
    other = await read_response(create_answering_webhook(Denied("no")), build_review())
    assert other["status"]["details"]["name"] == "a"


async def test_a_patch_is_sent_as_base64_of_a_json_patch() -> None:
    answer = Patched.from_change({"spec": {}}, {"spec": {"size": 1}})
    answered = await read_response(create_answering_webhook(answer, mutating=True), build_review())
    assert (answered["allowed"], answered["patchType"]) == (True, "JSONPatch")
    assert msgspec.json.decode(b64decode(answered["patch"])) == [
        {"op": "add", "path": "/spec/size", "value": 1}
    ]


async def test_an_answer_with_an_empty_patch_has_no_patch_field() -> None:
    answered = await read_response(
        create_answering_webhook(Patched.from_change({}, {}), mutating=True), build_review()
    )
    assert answered["allowed"] is True
    assert not {"patch", "patchType"} & answered.keys()


@pytest.mark.parametrize(
    "body",
    [
        b"no JSON",
        b"[]",
        b"{}",
        b'{"kind":"Pod","apiVersion":"v1"}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2","request":{}}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":7}}',
        b"[" * 100_000,
    ],
)
async def test_a_body_that_is_no_admission_review_is_refused_with_400(body: bytes) -> None:
    answered = await read_response(Webhook("/judge", allow, Widget), body)
    assert (answered["allowed"], answered["status"]["code"]) == (False, 400)


@settings(deadline=None)
@given(st.binary(max_size=200))
async def test_random_bodies_are_refused(body: bytes) -> None:
    answered = await read_response(Webhook("/judge", allow, Widget), body)
    assert answered["allowed"] is False


async def test_a_request_that_cannot_be_decoded_is_refused_with_its_uid() -> None:
    answered = await read_response(
        Webhook("/judge", allow, Widget), build_review(operation="STEAL")
    )
    assert (answered["uid"], answered["status"]["code"]) == (UID, 400)


async def test_a_new_object_that_cannot_be_decoded_is_refused_with_the_field() -> None:
    body = {**encode_widget(build_widget("a", 1)), "spec": {"size": "big"}}
    answered = await read_response(Webhook("/judge", allow, Widget), build_review(object=body))
    assert (answered["uid"], answered["status"]["code"]) == (UID, 400)
    assert "$.spec.size" in answered["status"]["message"]


async def test_a_broken_stored_object_can_still_be_repaired_and_deleted() -> None:
    broken = {**encode_widget(build_widget("a", 1)), "spec": {"size": "big"}}
    request = await read_request(build_review(operation="UPDATE", oldObject=broken))
    assert request.oldObject is None
    assert "$.spec.size" in request.oldObjectError
    assert (
        await read_request(build_review(operation="DELETE", object=None, oldObject=broken))
    ).object is None


async def test_a_handler_that_raises_refuses_with_500_without_the_reason() -> None:
    answered = await read_response(
        create_answering_webhook(RuntimeError("password is 1234")), build_review()
    )
    assert (answered["allowed"], answered["uid"], answered["status"]["code"]) == (False, UID, 500)
    assert "1234" not in answered["status"]["message"]
    assert UID in answered["status"]["message"]


@pytest.mark.survives_bugs
@pytest.mark.parametrize("answer", [None, True, Patched([{"op": "remove", "path": "/a"}])])
async def test_an_answer_that_a_webhook_may_not_give_refuses_with_500(answer: object) -> None:
    answered = await read_response(create_answering_webhook(answer), build_review())
    assert (answered["allowed"], answered["status"]["code"]) == (False, 500)


async def test_a_handler_that_takes_too_long_leaves_the_decision_to_the_failure_policy() -> None:
    async def sleep(_: AdmissionRequest[Widget]) -> Answer:
        await anyio.sleep_forever()
        return Allowed()

    clock = VirtualClock()
    late: list[Exception] = []

    async def answer() -> None:
        try:
            await Webhook("/judge", sleep, Widget).answer(build_review(), clock, 9)
        except DeadlineExceeded as error:
            late.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(answer)
        await clock.advance(8.9)
        assert not late
        await clock.advance(0.1)
        assert "within 9 s" in str(late[0])
    assert clock.waiting == 0


def test_the_deadline_of_a_handler_is_nine_tenths_of_the_api_server_s_timeout() -> None:
    assert compute_handler_seconds("10s", 5) == 9
    assert compute_handler_seconds("3s", 5) == pytest.approx(2.7)
    assert compute_handler_seconds("", 5) == 4.5
    assert compute_handler_seconds("-1s", 5) == 4.5
    assert compute_handler_seconds("nonsense", 5) == 4.5
    assert compute_handler_seconds("9999s", 5) == 27


async def test_warnings_are_kept_to_what_the_api_server_passes_on() -> None:
    warnings = ["two\nlines", "x" * 300, "", *["y" * 250] * 20]
    answered = await read_response(create_answering_webhook(Allowed(warnings)), build_review())
    kept = answered["warnings"]
    assert kept[0] == "two lines"
    assert kept[1] == "x" * 255 + "…"
    assert sum(len(warning) for warning in kept) <= 4096
    assert all(len(warning) <= 256 for warning in kept)
    assert "warnings" in await read_response(
        create_answering_webhook(Denied("no", warnings=["why"])), build_review()
    )


def test_a_refusal_needs_the_code_of_an_error() -> None:
    with pytest.raises(ValueError, match="400 to 599"):
        Denied("no", code=200)


@pytest.mark.parametrize("entry", [{}, {"op": "add"}, {"op": "add", "path": "a"}, {"path": "/a"}])
def test_a_patch_holds_operations_only(entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="RFC 6902"):
        Patched([entry])


@pytest.mark.parametrize("path", ["", "/", "judge"])
def test_a_path_begins_with_a_slash(path: str) -> None:
    with pytest.raises(ValueError, match="slash"):
        Webhook(path, allow, Widget)
