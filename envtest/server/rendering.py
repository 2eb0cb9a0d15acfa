"""Encode answers to JSON, in the form that the client asked for."""

from collections.abc import Iterable
from typing import Any

import msgspec

from envtest.schema.errors import build_invalid_error, join_messages
from envtest.server.call import Answer, JsonAnswer, ListAnswer, ObjectAnswer
from envtest.server.failures import build_bad_request
from envtest.server.forms import Form
from envtest.server.rules import Rules

_CHOICES = "must be 'Metadata', 'Object', 'None', or empty"

_decode = msgspec.json.Decoder().decode


def render_answer(answer: Answer, form: Form, include: str = "Metadata") -> tuple[int, bytes]:
    """Return the status and the body of an answer.

    Args:
        answer: the answer of a verb.
        form: the form that the client accepts; it does not count for a `JsonAnswer` answer.
        include: the query parameter includeObject, for tables.
    """
    if isinstance(answer, JsonAnswer):
        return answer.code, msgspec.json.encode(answer.body)
    if form == "table":
        data = msgspec.json.encode(_build_answer_table(answer, include))
    else:
        data = answer.body if isinstance(answer, ObjectAnswer) else _encode_list(answer)
    return (200 if isinstance(answer, ListAnswer) else answer.code), data


def _build_answer_table(answer: ObjectAnswer | ListAnswer, include: str) -> dict[str, Any]:
    """Return an answer as a Table.

    Raises:
        StatusError: 400 when `include` is not an allowed value.
    """
    check_include(include)
    rules = answer.resource.rules
    if isinstance(answer, ObjectAnswer):
        body = _decode(answer.body)
        meta = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
        return build_table(rules, [body], meta=meta, include=include)
    head = {"apiVersion": answer.resource.api_version, "kind": answer.resource.kind}
    bodies = ({**head, **_decode(item)} for item in answer.items)
    return build_table(rules, bodies, meta=_build_list_meta(answer), include=include)


def check_include(include: str) -> None:
    """Refuse an includeObject that is not an allowed value.

    Raises:
        StatusError: 400.
    """
    if include not in {"", "None", "Metadata", "Object"}:
        problem = build_invalid_error("includeObject", include, _CHOICES)
        raise build_bad_request(
            f"Unable to convert to Table as requested: {join_messages([problem])}"
        )


def build_table(
    rules: Rules,
    bodies: Iterable[dict[str, Any]],
    *,
    meta: dict[str, Any],
    include: str = "Metadata",
    headers: bool = True,
) -> dict[str, Any]:
    """Return a Table with a row for each object.

    Args:
        rules: the rules of the kind, which know its columns and cells.
        bodies: the objects, with apiVersion and kind.
        meta: the table's own metadata.
        include: the part of the object in each row: `None`, `Metadata`, `Object` or empty.
        headers: whether to describe the columns. In a watch only the first event does.
    """
    columns = [column.as_dict() for column in rules.list_columns()] if headers else None
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": columns,
        "rows": [_build_row(rules, body, include) for body in bodies],
    }


def _build_row(rules: Rules, body: dict[str, Any], include: str) -> dict[str, Any]:
    """Return a row of a Table: the cells, and the part of the object that `include` says."""
    row_object: dict[str, Any] | None = None
    if include == "Object":
        row_object = body
    elif include != "None":
        # Metadata is the default.
        head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        row_object = {**head, "metadata": body["metadata"]}
    return {"cells": rules.build_cells(body), "object": row_object}


def _build_list_meta(answer: ListAnswer) -> dict[str, Any]:
    """Return the metadata of a list; an empty token and a number of 0 are left out."""
    meta: dict[str, Any] = {"resourceVersion": str(answer.revision)}
    if answer.token:
        meta["continue"] = answer.token
    if answer.remaining:
        meta["remainingItemCount"] = answer.remaining
    return meta


def _encode_list(answer: ListAnswer) -> bytes:
    """Encode a list by joining the bytes of its items; nothing is decoded.

    As in kube-apiserver, the list of a custom kind has its keys in alphabetical order, always has
    `continue`, and has apiVersion and kind in each item.
    """
    resource, meta = answer.resource, _build_list_meta(answer)
    api_version = f'"apiVersion":"{resource.api_version}"'.encode()
    kind = f'"kind":"{resource.list_kind}"'.encode()
    if resource.rules.is_custom:
        encoded_meta = msgspec.json.encode({"continue": "", **meta}, order="sorted")
        # `head` has the brace with which an item begins, and the item's apiVersion and kind.
        items = b",".join([resource.head + item[1:] for item in answer.items])
        list_end = (b"],", kind, b',"metadata":', encoded_meta, b"}")
        return b"".join((b"{", api_version, b',"items":[', items, *list_end))
    items = b",".join(answer.items)
    encoded_meta = msgspec.json.encode(meta)
    list_start = (b"{", kind, b",", api_version, b',"metadata":', encoded_meta)
    return b"".join((*list_start, b',"items":[', items, b"]}"))
