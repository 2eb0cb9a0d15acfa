"""From an answer to bytes, in the form that the client asked for."""

from typing import Any

import msgspec

from envtest.schema import write_yaml
from envtest.server.call import Answer, Many, One, Plain, Scaled
from envtest.server.failures import StatusError
from envtest.server.forms import JSON, PROTOBUF, YAML, Form, negotiate_plain
from envtest.server.protobuf import encoded, message_name
from envtest.server.tables import check_include, partial, partial_list, table
from envtest.wire.encoding import write_list

_decode = msgspec.json.Decoder().decode


def render(answer: Answer, form: Form, include: str = "Metadata") -> tuple[int, bytes]:
    """Return the status and the body of an answer.

    Args:
        answer: what a verb returned.
        form: what the client wants.
        include: the query parameter includeObject, for tables.
    """
    code = 200 if isinstance(answer, Many) else answer.code
    if form.media == PROTOBUF:
        return code, _protobuf(answer, form, include)
    if isinstance(answer, Plain):
        data = msgspec.json.encode(answer.body)
    elif form.shape == "object":
        data = _whole(answer)
    else:
        data = msgspec.json.encode(_transformed(answer, form, include))
    if form.media == YAML:
        data = write_yaml(_decode(data)).encode()
    return code, data


def render_document(body: dict[str, Any], media: str) -> bytes:
    """Return a Status or a document of discovery.

    Args:
        body: the object, with its kind.
        media: a media type that is spoken.
    """
    if media == PROTOBUF:
        return encoded(body)
    return write_yaml(body).encode() if media == YAML else msgspec.json.encode(body)


def render_refusal(body: dict[str, Any], accept: str) -> tuple[bytes, str]:
    """Return a refusal and its media type.

    Args:
        body: the Status.
        accept: the Accept header; where nothing in it is spoken, indented JSON has to do.
    """
    media = negotiate_plain(accept)
    if media is None:
        return msgspec.json.format(msgspec.json.encode(body), indent=2), JSON
    return render_document(body, media), media


def _protobuf(answer: Answer, form: Form, include: str) -> bytes:
    """Return an answer in protobuf."""
    if isinstance(answer, Plain):
        return encoded(answer.body)
    if form.shape != "object":
        return encoded(_transformed(answer, form, include))
    if isinstance(answer, One):
        return encoded(_decode(answer.body))
    if isinstance(answer, Scaled):
        return encoded(answer.body)
    resource = answer.resource
    items = map(_decode, answer.items)
    name = message_name(resource.api_version, resource.kind)
    return write_list(resource.api_version, resource.list_kind, _list_meta(answer), items, name)


def _whole(answer: One | Many | Scaled) -> bytes:
    """Return the object itself."""
    if isinstance(answer, One):
        return answer.body
    return _list(answer) if isinstance(answer, Many) else msgspec.json.encode(answer.body)


def _transformed(answer: One | Many | Scaled, form: Form, include: str) -> dict[str, Any]:
    """Return a table or metadata.

    Raises:
        StatusError: 400 or 406 when the answer cannot be made into what is asked for.
    """
    if form.shape == "table":
        check_include(include)
    elif form.many != isinstance(answer, Many):
        raise _other_number(answer)
    if not isinstance(answer, Many):
        body = _decode(answer.body) if isinstance(answer, One) else answer.body
        if form.shape == "partial":
            return partial(body, form.version)
        meta = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
        rows = answer.resource.rules if isinstance(answer, One) else answer.rows
        return table(rows, [body], meta=meta, include=include, version=form.version)
    resource = answer.resource
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    bodies = ({**head, **_decode(item)} for item in answer.items)
    meta = _list_meta(answer)
    if form.shape == "partial":
        return partial_list(bodies, meta=meta, version=form.version)
    order = resource.rules.row_order
    shown = bodies if order is None else sorted(bodies, key=order)
    return table(resource.rules, shown, meta=meta, include=include, version=form.version)


def _other_number(answer: One | Many | Scaled) -> StatusError:
    """Return the refusal of one for many, or of many for one; Go tells by its own types."""
    kind, suffix = (
        ("PartialObjectMetadata", "a")
        if isinstance(answer, Many)
        else ("PartialObjectMetadataList", "not a")
    )
    text = f"you requested {kind}, but the requested object is {suffix} list ({_go_type(answer)})"
    return StatusError(406, text, "NotAcceptable")


def _go_type(answer: One | Many | Scaled) -> str:
    """Return the name of the type by which the real server has an answer in its memory."""
    if isinstance(answer, Scaled):
        return "*autoscaling.Scale"
    resource, many = answer.resource, isinstance(answer, Many)
    if resource.rules.custom:
        return f"*unstructured.Unstructured{'List' if many else ''}"
    package = resource.group.partition(".")[0] or "core"
    kind = resource.list_kind if many else resource.kind
    return f"*{'core' if package == 'events' else package}.{kind}"


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
        shown = msgspec.json.encode({"continue": "", **meta}, order="sorted")
        begin = resource.head
        items = b",".join([begin + item[1:] for item in answer.items])
        head, kind = names[0].encode(), names[1].encode()
        return b"".join(
            (b"{", head, b',"items":[', items, b"],", kind, b',"metadata":', shown, b"}")
        )
    items = b",".join(answer.items)
    head = f"{{{names[1]},{names[0]}".encode()
    return b"".join(
        (head, b',"metadata":', msgspec.json.encode(meta), b',"items":[', items, b"]}")
    )
