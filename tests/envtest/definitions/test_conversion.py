"""Several versions of a kind: what a conversion webhook is asked, and what may come of it."""

import json
from typing import Any

import httpx
import pytest

from envtest.plane import ControlPlane as Plane
from tests.envtest.definitions.gears import (
    GROUP,
    V1,
    V2,
    Converter,
    answer,
    converted,
    crd,
    gear,
)
from tests.streams import unwound

MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
_SIZE = {"amount": 3, "unit": "mm"}


@pytest.fixture(autouse=True)
async def gears(plane: Plane, hook: Converter) -> None:
    """Serve gears, converted by the hook."""
    await plane.install_crds([crd(conversion=hook.conversion)])


async def _created(http: httpx.AsyncClient, *names: str) -> None:
    for name in names:
        answered = await http.post(V1, json=gear(name))
        assert answered.status_code == 201, answered.text


async def test_an_object_reads_in_each_version_as_the_webhook_makes_it(
    http: httpx.AsyncClient, hook: Converter
) -> None:
    await _created(http, "a")
    stored = (await http.get(f"{V1}/a")).json()
    assert hook.asked() == []

    read = (await http.get(f"{V2}/a")).json()

    assert (read["apiVersion"], read["spec"]) == (f"{GROUP}/v2", {"size": _SIZE})
    assert {**read["metadata"]} == stored["metadata"]
    assert hook.asked() == [("v2", ["a"])]


async def test_a_review_has_everything_that_the_webhook_needs(
    http: httpx.AsyncClient, hook: Converter
) -> None:
    await _created(http, "a")
    await http.get(f"{V2}/a")

    review = hook.reviews[-1]
    assert (review["apiVersion"], review["kind"]) == (
        "apiextensions.k8s.io/v1",
        "ConversionReview",
    )
    assert review["request"]["uid"]
    (sent,) = review["request"]["objects"]
    assert (sent["apiVersion"], sent["kind"]) == (f"{GROUP}/v1", "Gear")
    assert sent["spec"] == {"size": "3mm"}
    assert sent["metadata"]["uid"]
    assert hook.paths[-1] == "/convert?timeout=30s"


async def test_a_list_is_converted_and_so_is_a_watch(
    http: httpx.AsyncClient, hook: Converter
) -> None:
    await _created(http, "a", "b")

    listed = (await http.get(V2)).json()

    assert [one["spec"]["size"] for one in listed["items"]] == [_SIZE, _SIZE]
    assert sorted(name for _, names in hook.asked() for name in names) == ["a", "b"]
    query = {"watch": "1", "timeoutSeconds": "5", "resourceVersion": "0"}
    async with (
        http.stream("GET", V2, params=query) as stream,
        unwound(stream.aiter_lines()) as lines,
    ):
        seen = [json.loads(await anext(lines)) for _ in range(2)]
        await _created(http, "c")
        seen.append(json.loads(await anext(lines)))
    assert [one["object"]["spec"]["size"] for one in seen] == [_SIZE] * 3
    assert {one["object"]["apiVersion"] for one in seen} == {f"{GROUP}/v2"}


async def test_what_is_written_in_one_version_is_stored_in_the_other(
    http: httpx.AsyncClient,
) -> None:
    made = await http.post(V2, json=gear("a", {"amount": 5}, "v2"))
    assert made.status_code == 201, made.text
    assert made.json()["spec"]["size"] == {"amount": 5, "unit": "mm"}

    assert (await http.get(f"{V1}/a")).json()["spec"] == {"size": "5mm"}
    body = (await http.get(f"{V2}/a")).json()
    body["spec"]["size"]["amount"] = 6
    replaced = await http.put(f"{V2}/a", json=body)
    assert replaced.json()["spec"]["size"] == {"amount": 6, "unit": "mm"}
    change = {"spec": {"size": {"unit": "cm"}}}
    patched = await http.patch(f"{V2}/a", json=change, headers=MERGE)
    assert patched.json()["spec"]["size"] == {"amount": 6, "unit": "cm"}
    assert (await http.get(f"{V1}/a")).json()["spec"] == {"size": "6cm"}
    status = await http.patch(f"{V2}/a/status", json={"status": {"turns": 2}}, headers=MERGE)
    assert status.json()["status"] == {"turns": 2}


async def test_fields_are_selected_by_their_value_in_the_version_that_is_read(
    http: httpx.AsyncClient, hook: Converter
) -> None:
    def shouted(review: dict[str, Any]) -> dict[str, Any]:
        wanted = review["request"]["desiredAPIVersion"]
        objects = [converted(body, wanted) for body in review["request"]["objects"]]
        for body in objects:
            body["spec"]["maker"] = body["spec"]["maker"].upper()
        return answer(review, objects)

    await http.post(V1, json=gear("a", maker="acme"))
    hook.answer = shouted

    chosen = (await http.get(V2, params={"fieldSelector": "spec.maker=ACME"})).json()

    assert [one["metadata"]["name"] for one in chosen["items"]] == ["a"]
    assert (await http.get(V1, params={"fieldSelector": "spec.maker=ACME"})).json()["items"] == []


async def test_an_applier_in_another_version_shares_what_it_owns(http: httpx.AsyncClient) -> None:
    async def apply(path: str, body: dict[str, Any], manager: str) -> httpx.Response:
        query = {"fieldManager": manager}
        text = json.dumps(body)
        return await http.patch(f"{path}/a", content=text, params=query, headers=APPLY)

    first = await apply(V1, gear("a"), "one")
    assert first.status_code == 201, first.text
    refused = await apply(V2, gear("a", {"amount": 4, "unit": "mm"}, "v2"), "two")
    assert refused.status_code == 409
    assert refused.json()["message"].startswith(
        'Apply failed with 1 conflict: conflict with "one"'
    )
    again = await apply(V2, gear("a", _SIZE, "v2"), "one")
    assert again.status_code == 200, again.text
    owners = again.json()["metadata"]["managedFields"]
    assert [(one["manager"], one["apiVersion"]) for one in owners] == [("one", f"{GROUP}/v2")]


async def test_deletion_leaves_objects_in_the_version_that_is_stored(
    http: httpx.AsyncClient, hook: Converter
) -> None:
    body = gear("a")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    await http.post(V1, json=body)

    gone = await http.delete(f"{V2}/a")

    assert gone.json()["metadata"]["deletionTimestamp"]
    assert gone.json()["spec"]["size"] == _SIZE
    hook.asked()
    assert (await http.get(f"{V1}/a")).json()["spec"] == {"size": "3mm"}
    assert hook.asked() == []
    await http.patch(f"{V2}/a", json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert (await http.get(f"{V1}/a")).status_code == 404


async def test_a_change_of_the_stored_version_leaves_old_objects_as_they_are(
    http: httpx.AsyncClient, plane: Plane, hook: Converter
) -> None:
    await _created(http, "old")
    await plane.install_crds([crd(storage="v2", conversion=hook.conversion)])
    await _created(http, "new")
    hook.asked()

    sizes = [one["spec"]["size"] for one in (await http.get(V2)).json()["items"]]

    assert sizes == [_SIZE, _SIZE]
    # The new one is stored in v2 already.
    assert hook.asked() == [("v2", ["old"])]


_FAILED = f"conversion webhook for {GROUP}/v1, Kind=Gear"


def _without_identity(review: dict[str, Any]) -> dict[str, Any]:
    (body,) = review["request"]["objects"]
    other = converted(body, review["request"]["desiredAPIVersion"])
    return answer(review, [{**other, "metadata": {**body["metadata"], "name": "other"}}])


def _refusal(review: dict[str, Any]) -> dict[str, Any]:
    said = answer(review, [])
    said["response"]["result"] = {"status": "Failed", "message": "no such size"}
    return said


def _labelled(labels: Any) -> Any:
    def say(review: dict[str, Any]) -> dict[str, Any]:
        (body,) = review["request"]["objects"]
        other = converted(body, review["request"]["desiredAPIVersion"])
        return answer(review, [{**other, "metadata": {**body["metadata"], "labels": labels}}])

    return say


def _anonymous(review: dict[str, Any]) -> dict[str, Any]:
    said = answer(review, [])
    said["response"]["uid"] = "x"
    return said


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (_refusal, f"{_FAILED} failed: no such size"),
        (lambda review: answer(review, []), f"{_FAILED} returned 0 objects, expected 1"),
        (
            lambda review: answer(review, review["request"]["objects"]),
            (
                f"{_FAILED} returned invalid object at index 0: invalid groupVersion "
                f"(expected {GROUP}/v2, received {GROUP}/v1)"
            ),
        ),
        (
            _without_identity,
            f"{_FAILED} returned invalid object: must have the same name: a != other",
        ),
        (
            _labelled({"a": 1}),
            (
                f"{_FAILED} returned invalid metadata: metadata.labels[a] must be a string, but "
                "is int64 in converted object"
            ),
        ),
    ],
)
async def test_an_answer_that_makes_no_sense_fails_the_request(
    http: httpx.AsyncClient, hook: Converter, said: Any, message: str
) -> None:
    await _created(http, "a")
    hook.answer = said

    read = await http.get(f"{V2}/a")

    status = read.json()
    assert (read.status_code, status["message"]) == (500, message)
    assert "reason" not in status
    assert (await http.get(f"{V1}/a")).status_code == 200


async def test_labels_and_annotations_are_all_of_metadata_that_a_webhook_may_change(
    http: httpx.AsyncClient, hook: Converter
) -> None:
    await _created(http, "a")

    def say(review: dict[str, Any]) -> dict[str, Any]:
        (body,) = review["request"]["objects"]
        other = converted(body, review["request"]["desiredAPIVersion"])
        metadata = {**body["metadata"], "labels": {"made": "new"}, "finalizers": ["x/y"]}
        return answer(review, [{**other, "metadata": metadata}])

    hook.answer = say

    metadata = (await http.get(f"{V2}/a")).json()["metadata"]

    assert metadata["labels"] == {"made": "new"}
    assert "finalizers" not in metadata


async def test_nothing_is_stored_when_conversion_fails(
    http: httpx.AsyncClient, hook: Converter
) -> None:
    hook.answer = _refusal
    made = await http.post(V2, json=gear("a", _SIZE, "v2"))
    failed = f"conversion webhook for {GROUP}/v2, Kind=Gear failed: no such size"
    assert (made.status_code, made.json()["message"]) == (500, failed)
    assert (await http.get(f"{V1}/a")).status_code == 404


async def test_a_webhook_that_is_not_there_is_told_of(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    client = {"service": {"name": "converter", "namespace": "default", "path": "/convert"}}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    await _created(http, "a")
    await plane.install_crds([crd()])
    changed = crd(conversion={"strategy": "Webhook", "webhook": webhook})
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.{GROUP}"
    changed["metadata"] = (await http.get(path)).json()["metadata"]
    assert (await http.put(path, json=changed)).status_code == 200

    read = await http.get(f"{V2}/a")

    assert read.status_code == 500
    assert read.json()["message"] == (
        f'{_FAILED} failed: Post "https://converter.default.svc:443/convert?timeout=30s": '
        'service "converter" not found'
    )
