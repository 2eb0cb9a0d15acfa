"""From an answer to bytes, in the form that the client asked for."""

from collections.abc import Iterable
from typing import Any

import msgspec

from envtest.schema.errors import aggregate_message, invalid
from envtest.server.call import Answer, Many, One, Plain
from envtest.server.failures import bad_request
from envtest.server.forms import Form
from envtest.server.rules import Rules

_CHOICES = "must be 'Metadata', 'Object', 'None', or empty"

_decode = msgspec.json.Decoder().decode


def render(answer: Answer, form: Form, include: str = "Metadata") -> tuple[int, bytes]:
    """Return the status and the body of an answer.

    Args:
        answer: what a verb returned.
        form: what the client wants.
        include: the query parameter includeObject, for tables.
    """
    if isinstance(answer, Plain):
        return answer.code, msgspec.json.encode(answer.body)
    if form == "table":
        data = msgspec.json.encode(_table(answer, include))
    else:
        data = answer.body if isinstance(answer, One) else _list(answer)
    return (200 if isinstance(answer, Many) else answer.code), data


def _table(answer: One | Many, include: str) -> dict[str, Any]:
    """Return the table that an answer is shown as.

    Raises:
        StatusError: 400 when `include` is no choice.
    """
    check_include(include)
    rules = answer.resource.rules
    if isinstance(answer, One):
        body = _decode(answer.body)
        meta = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
        return table(rules, [body], meta=meta, include=include)
    head = {"apiVersion": answer.resource.api_version, "kind": answer.resource.kind}
    bodies = ({**head, **_decode(item)} for item in answer.items)
    return table(rules, bodies, meta=_list_meta(answer), include=include)


def check_include(include: str) -> None:
    """Refuse rows that carry what is none of the choices.

    Raises:
        StatusError: 400.
    """
    if include not in {"", "None", "Metadata", "Object"}:
        problem = invalid("includeObject", include, _CHOICES)
        raise bad_request(
            f"Unable to convert to Table as requested: {aggregate_message([problem])}"
        )


def table(
    rules: Rules,
    bodies: Iterable[dict[str, Any]],
    *,
    meta: dict[str, Any],
    include: str = "Metadata",
    headers: bool = True,
) -> dict[str, Any]:
    """Return a Table.

    Args:
        rules: of the kind: its columns and cells.
        bodies: the objects, with apiVersion and kind.
        meta: the table's own metadata.
        include: `None`, `Metadata` or `Object`: what each row carries of its object.
        headers: whether to describe the columns; later events of a watch leave that out.
    """
    columns = [column.as_dict() for column in rules.columns()] if headers else None
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": columns,
        "rows": [_row(rules, body, include) for body in bodies],
    }


def _row(rules: Rules, body: dict[str, Any], include: str) -> dict[str, Any]:
    carried: dict[str, Any] | None = None
    if include == "Object":
        carried = body
    elif include != "None":
        head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        carried = {**head, "metadata": body["metadata"]}
    return {"cells": rules.cells(body), "object": carried}


def _list_meta(answer: Many) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": str(answer.revision)}
    if answer.token:
        meta["continue"] = answer.token
    if answer.remaining:
        meta["remainingItemCount"] = answer.remaining
    return meta


def _list(answer: Many) -> bytes:
    """Join a list from the bytes of its items; nothing is decoded."""
    resource, meta = answer.resource, _list_meta(answer)
    names = f'"apiVersion":"{resource.api_version}"', f'"kind":"{resource.list_kind}"'
    if resource.rules.custom:
        encoded_meta = msgspec.json.encode({"continue": "", **meta}, order="sorted")
        begin = resource.head
        items = b",".join([begin + item[1:] for item in answer.items])
        head, kind = names[0].encode(), names[1].encode()
        return b"".join(
            (b"{", head, b',"items":[', items, b"],", kind, b',"metadata":', encoded_meta, b"}")
        )
    items = b",".join(answer.items)
    head = f"{{{names[1]},{names[0]}".encode()
    return b"".join(
        (head, b',"metadata":', msgspec.json.encode(meta), b',"items":[', items, b"]}")
    )
