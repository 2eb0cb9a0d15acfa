"""Conversion webhooks: what functions get, what is kept, and what is answered when one fails."""

from collections.abc import Callable
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from controller import ObjectMeta, Untyped
from controller.webhooks import Conversion, Spoke
from tests.clock import VirtualClock
from tests.controller.webhooks.conversions import (
    GIZMOS,
    UID,
    Gizmo,
    ask,
    build_gizmo,
    build_review,
    convert_objects,
    create_gizmo_conversion,
    read_failure,
)

Json = dict[str, Any]
NAMES = st.text("abcxyz", min_size=1, max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def return_unchanged(obj: Json) -> Json:
    return obj


def create_plain_conversion(
    to_hub: Callable[[Json], Any], from_hub: Callable[[Json], Any] = return_unchanged
) -> Conversion[Any]:
    """Return a conversion of plain JSON between the spoke v1 and the hub v2."""
    return Conversion(
        "/convert", GIZMOS, dict, Spoke("v1", dict, to_hub=to_hub, from_hub=from_hub)
    )


async def test_an_object_is_converted_to_the_hub_back_and_from_spoke_to_spoke() -> None:
    (new,) = await convert_objects(
        create_gizmo_conversion(), "v2", build_gizmo("v1", {"size": "12cm", "color": "red"})
    )
    assert (new["apiVersion"], new["kind"]) == ("example.com/v2", "Gizmo")
    assert new["spec"] == {"centimetres": 12, "color": "red"}
    (old,) = await convert_objects(create_gizmo_conversion(), "v1", new)
    assert old == build_gizmo("v1", {"size": "12cm", "color": "red"})
    (newest,) = await convert_objects(create_gizmo_conversion(), "v3", old)
    assert newest["spec"] == {"millimetres": 120, "color": "red"}


async def test_objects_of_several_versions_are_converted_and_keep_their_order() -> None:
    objects = [
        build_gizmo("v1", {"size": "1cm"}, "one"),
        build_gizmo("v2", {"centimetres": 2}, "two"),
        build_gizmo("v3", {"millimetres": 30}, "three"),
    ]
    answered = await convert_objects(create_gizmo_conversion(), "v2", *objects)
    assert [gizmo["metadata"]["name"] for gizmo in answered] == ["one", "two", "three"]
    assert [gizmo["spec"]["centimetres"] for gizmo in answered] == [1, 2, 3]
    assert await convert_objects(create_gizmo_conversion(), "v2") == []


async def test_the_answer_to_a_review_has_the_api_version_of_the_review() -> None:
    for version in ("v1", "v1beta1"):
        answer, _ = await ask(create_gizmo_conversion(), build_review("v2", version=version))
        assert answer["apiVersion"] == f"apiextensions.k8s.io/{version}"
        assert answer["kind"] == "ConversionReview"


async def test_fields_that_no_type_names_are_kept_at_every_depth() -> None:
    meta: Json = {"labels": {"a": "b"}, "finalizers": ["example.com/x"], "selfLink": "/x"}
    before = build_gizmo(
        "v1", {"size": "1cm", "hidden": {"deep": [1, None]}, "void": None}, **meta
    )
    (after,) = await convert_objects(
        create_gizmo_conversion(), "v2", {**before, "status": {"phase": "Fine"}}
    )
    assert after["metadata"] == before["metadata"]
    assert after["spec"] == {"centimetres": 1, "hidden": {"deep": [1, None]}, "void": None}
    assert after["status"] == {"phase": "Fine"}


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 500),
    st.none() | st.text(max_size=4),
    st.dictionaries(NAMES, JSON, max_size=3),
    st.dictionaries(NAMES, JSON, max_size=3),
    st.dictionaries(NAMES, st.text(max_size=3), max_size=2),
)
async def test_converting_there_and_back_loses_nothing(
    size: int, color: str | None, hidden: Json, status: Json, labels: dict[str, str]
) -> None:
    spec = {"size": f"{size}cm", **({} if color is None else {"color": color}), **hidden}
    before = {**build_gizmo("v1", spec, labels=labels), "status": status}
    for way in ("v2", "v3"):
        (there,) = await convert_objects(create_gizmo_conversion(), way, before)
        (back,) = await convert_objects(create_gizmo_conversion(), "v1", there)
        assert back == before


async def test_pydantic_models_are_converted_with_their_aliases() -> None:
    class Old(pydantic.BaseModel, frozen=True):
        metadata: ObjectMeta
        spec: dict[str, str]

    class Size(pydantic.BaseModel, frozen=True):
        in_cm: int = pydantic.Field(alias="inCm")
        note: str | None = None

    class New(pydantic.BaseModel, frozen=True):
        metadata: ObjectMeta
        spec: Size

    def to_hub(old: Old) -> New:
        return New(metadata=old.metadata, spec=Size(inCm=int(old.spec["size"])))

    def from_hub(new: New) -> Old:
        return Old(metadata=new.metadata, spec={"size": str(new.spec.in_cm)})

    conversion = Conversion(
        "/convert", GIZMOS, New, Spoke("v1", Old, to_hub=to_hub, from_hub=from_hub)
    )
    before = build_gizmo("v1", {"size": "4"}, labels={"a": "b"})
    (there,) = await convert_objects(conversion, "v2", before)
    assert there["spec"] == {"inCm": 4}
    assert await convert_objects(conversion, "v1", {**there, "extra": 1}) == [
        {**before, "extra": 1}
    ]


async def test_a_function_may_change_labels_and_annotations() -> None:
    def note(obj: Json) -> Json:
        obj["metadata"] |= {"labels": {"size": "small"}, "annotations": {"example.com/a": "b"}}
        return obj

    (after,) = await convert_objects(
        create_plain_conversion(note), "v2", build_gizmo("v1", {}, labels={"x": "y"})
    )
    assert after["metadata"]["labels"] == {"size": "small"}
    assert after["metadata"]["annotations"] == {"example.com/a": "b"}
    (after,) = await convert_objects(
        create_plain_conversion(with_meta(labels=None)), "v2", build_gizmo("v1", {})
    )
    assert after["metadata"]["labels"] is None  # as good as absent


def with_meta(**changes: Any) -> Callable[[Json], Json]:
    return lambda obj: {**obj, "metadata": {**obj["metadata"], **changes}}


@pytest.mark.survives_bugs
@pytest.mark.parametrize(
    ("function", "message_part"),
    [
        (
            with_meta(name="b"),
            "metadata.name was changed from 'a' to 'b': a conversion may change",
        ),
        (with_meta(namespace="other"), "metadata.namespace was changed from 'default' to 'other'"),
        (with_meta(uid=None), "metadata.uid was changed from 'uid-a' to None"),
        (with_meta(finalizers=["x"]), "metadata.finalizers was changed: a conversion may"),
        (with_meta(labels={"a": 1}), "metadata.labels[a] is 1, but must be a string"),
        (with_meta(annotations=["a"]), "metadata.annotations is ['a'], but must be an object"),
        (lambda obj: {"spec": obj["spec"]}, "metadata is missing: return the object with its"),
        (lambda _: None, "<lambda> returned None, which is not of type dict"),
        (lambda obj: [obj], "which is not of type dict"),
        (lambda obj: {**obj, "spec": object()}, "TypeError: a object cannot be sent as JSON"),
    ],
)
async def test_a_function_that_breaks_a_rule_fails_with_the_rule_and_the_place(
    function: Callable[[Json], Any], message_part: str
) -> None:
    message, failed = await read_failure(
        create_plain_conversion(function), "v2", build_gizmo("v1", {})
    )
    start = "Gizmo default/a cannot be converted from example.com/v1 to example.com/v2: "
    assert message.startswith(start)
    assert message_part in message
    assert failed


async def test_a_function_cannot_change_the_version_and_kind() -> None:
    (after,) = await convert_objects(
        create_plain_conversion(lambda obj: {**obj, "kind": "X"}), "v2", build_gizmo("v1", {})
    )
    assert (after["apiVersion"], after["kind"]) == ("example.com/v2", "Gizmo")


class NotConvertible(Exception):
    """What a function raises on purpose."""


@pytest.mark.survives_bugs
@pytest.mark.parametrize(
    ("raised", "message_part", "bug"),
    [
        (NotConvertible("spec.size: no number"), ": spec.size: no number", False),
        (NotConvertible(), ": NotConvertible", False),
        (KeyError("size"), ": KeyError: 'size'", True),
        (ValueError("spec.size is no number"), ": ValueError: spec.size is no number", True),
        (GeneratorExit(), "which is not an Exception", True),
    ],
)
async def test_a_function_that_raises_fails_with_its_text_and_a_line_with_the_name(
    raised: BaseException, message_part: str, bug: bool
) -> None:
    def fail(obj: Json) -> Json:
        if obj["metadata"]["name"] == "bad":
            raise raised
        return obj

    with capture_logs() as lines:
        objects = [build_gizmo("v1", {}), build_gizmo("v1", {}, "bad"), build_gizmo("v1", {})]
        message, failed = await read_failure(create_plain_conversion(fail), "v2", *objects)
    assert "Gizmo default/bad" in message
    assert message_part in message
    assert failed is bug
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert line["event"] == ("Conversion panic" if bug else "Conversion error")
    assert (line["namespace"], line["name"], line["webhook"]) == ("default", "bad", "/convert")
    assert (line["version"], line["desired"]) == ("example.com/v1", "example.com/v2")
    assert line["requestID"] == UID


async def test_system_exit_in_a_function_ends_the_process() -> None:
    def leave(_: Json) -> Json:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await ask(create_plain_conversion(leave), build_review("v2", build_gizmo("v1", {})))


async def test_an_object_that_does_not_fit_its_type_fails_with_the_field_and_is_no_bug() -> None:
    message, failed = await read_failure(
        create_gizmo_conversion(), "v2", build_gizmo("v1", {"size": 12})
    )
    assert "it cannot be read as OldGizmo" in message
    assert "$.spec.size" in message
    assert not failed


@pytest.mark.parametrize(
    ("changes", "desired", "message_part"),
    [
        ({}, "v9", "convert Gizmo of example.com/v1 to example.com/v9"),
        (
            {"apiVersion": "example.com/v7"},
            "v2",
            "convert Gizmo of example.com/v7 to example.com/v2",
        ),
        ({"kind": "Gadget"}, "v2", "convert Gadget of example.com/v1 to example.com/v2"),
        ({"apiVersion": None}, "v2", "convert Gizmo of None to example.com/v2"),
    ],
)
async def test_an_unknown_version_or_kind_fails_with_the_known_versions(
    changes: Json, desired: str, message_part: str
) -> None:
    message, failed = await read_failure(
        create_gizmo_conversion(), desired, {**build_gizmo("v1", {}), **changes}
    )
    assert "webhook /convert-gizmo converts Gizmo of example.com/v1, example.com/v2" in message
    assert message_part in message
    assert not failed


@pytest.mark.parametrize("value", [[], 7, None, "text", {}, {"metadata": 1}])
async def test_converting_a_value_that_is_no_object_fails(value: object) -> None:
    answer, failed = await ask(
        create_gizmo_conversion(), msgspec.json.encode(build_review_of(value))
    )
    assert answer["response"]["result"]["status"] == "Failure"
    assert not failed


def build_review_of(value: object) -> Json:
    """Return a ConversionReview with `value` in place of an object."""
    decoded: Json = msgspec.json.decode(build_review("v2"))
    decoded["request"]["objects"] = [value]
    return decoded


@pytest.mark.parametrize(
    ("body", "message_part"),
    [
        (b"no JSON", "the body is not a ConversionReview"),
        (b"[" * 100_000, "the body is not a ConversionReview"),
        (b"{}", 'no kind "" is registered for version ""'),
        (
            b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v2"}',
            "expected ConversionReview of apiextensions.k8s.io/v1",
        ),
        (
            b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}',
            "the ConversionReview has no request",
        ),
    ],
)
async def test_a_body_that_is_no_review_fails(body: bytes, message_part: str) -> None:
    answer, failed = await ask(create_gizmo_conversion(), body)
    assert message_part in answer["response"]["result"]["message"]
    assert not failed


async def test_a_request_that_cannot_be_read_is_answered_with_its_uid_and_version() -> None:
    body = b'{"kind":"ConversionReview","apiVersion":"%s","request":{"uid":"%s"}}'
    answer, _ = await ask(
        create_gizmo_conversion(), body % (b"apiextensions.k8s.io/v1beta1", UID.encode())
    )
    assert answer["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    assert answer["response"]["uid"] == UID
    beginning = "the request of the ConversionReview cannot be read: Object missing required field"
    assert answer["response"]["result"]["message"].startswith(beginning)


async def test_objects_that_take_too_long_fail_with_a_sentence() -> None:
    clock = VirtualClock()
    answer, failed = await create_gizmo_conversion().answer(
        build_review("v2", build_gizmo("v1", {})), clock, 0
    )
    result = msgspec.json.decode(answer)["response"]["result"]
    assert result["message"] == "webhook /convert-gizmo did not convert 1 objects within 0 s"
    assert not failed


@pytest.mark.survives_bugs
async def test_a_conversion_that_would_lose_fields_fails_and_says_what_to_do() -> None:
    class Old(msgspec.Struct):
        metadata: ObjectMeta
        spec: dict[str, Any]

    class Part(msgspec.Struct):
        name: str

    class New(msgspec.Struct):
        metadata: ObjectMeta
        parts: list[Part] = []
        mood: str = ""

    conversion = Conversion(
        "/convert",
        GIZMOS,
        New,
        Spoke(
            "v1",
            Old,
            to_hub=lambda old: New(old.metadata, [Part(name) for name in old.spec["parts"]]),
            from_hub=lambda new: Old(new.metadata, {"parts": [part.name for part in new.parts]}),
        ),
    )
    parts = {"parts": [{"name": "x"}, {"name": "y", "note": "mine"}], "spec": None}
    message, failed = await read_failure(conversion, "v1", {**build_gizmo("v2", {}), **parts})
    assert "parts[1].note: the type of this version does not name the field, and parts" in message
    assert failed
    old = {**build_gizmo("v1", {"parts": []}), "mood": "glad"}
    message, failed = await read_failure(conversion, "v2", old)
    assert "mood: the function returned another value than the object has" in message
    assert failed


def test_a_conversion_needs_a_path_several_versions_and_plain_functions() -> None:
    spoke = Spoke("v1", dict, to_hub=return_unchanged, from_hub=return_unchanged)
    with pytest.raises(ValueError, match="slash"):
        Conversion("convert", GIZMOS, dict, spoke)
    with pytest.raises(ValueError, match=r"several different versions, but got v2$"):
        Conversion("/convert", GIZMOS, dict)
    with pytest.raises(ValueError, match="several different versions, but got v2, v1, v1"):
        Conversion("/convert", GIZMOS, dict, spoke, spoke)
    with pytest.raises(ValueError, match="several different versions, but got v2, v2"):
        Conversion(
            "/convert",
            GIZMOS,
            dict,
            Spoke("v2", dict, to_hub=return_unchanged, from_hub=return_unchanged),
        )

    async def later(obj: Json) -> Json:
        return obj

    anything: Any = later
    of_dict: Spoke[Any, Any] = spoke
    with pytest.raises(TypeError, match=r"later, must be a plain function"):
        Spoke("v1", dict, to_hub=anything, from_hub=return_unchanged)
    with pytest.raises(ValueError, match="plain JSON"):
        Conversion("/convert", GIZMOS, Gizmo, of_dict)
    untyped: Spoke[Any, Any] = Spoke(
        "v1", Untyped, to_hub=return_unchanged, from_hub=return_unchanged
    )
    with pytest.raises(ValueError, match="cannot have the type Untyped: use dict"):
        Conversion("/convert", GIZMOS, Untyped, untyped)
