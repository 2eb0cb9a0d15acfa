"""TokenRequests as clients send them: read, completed, judged."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from envtest.patching import FieldModel, track_update
from envtest.schema.errors import invalid
from envtest.server.bodies import read_as
from envtest.server.call import Call
from envtest.server.failures import bad_request, invalid_object
from envtest.server.objectmeta import timestamp
from envtest.server.options import write_options

_GROUP = "authentication.k8s.io"
VERSION: Final = f"{_GROUP}/v1"
_KIND = "io.k8s.api.authentication.v1.TokenRequest"
# A request that nobody filled in.
_EMPTY: dict[str, Any] = {
    "metadata": {},
    "spec": {"audiences": None, "expirationSeconds": None, "boundObjectRef": None},
    "status": {"token": "", "expirationTimestamp": None},
}
# Seconds.
_SHORTEST, _USUAL, _LONGEST = 600, 3600, 1 << 32

Body = dict[str, Any]


def read_token_request(call: Call, account: Mapping[str, Any]) -> tuple[Body, Body]:
    """Return metadata and spec of a request; the spec says for how long.

    Args:
        call: the request.
        account: metadata of the service account.

    Raises:
        StatusError: it makes no sense, or is about another account.
    """
    options = write_options("CreateOptions", call.query, call.dry_runs, call.agent)
    body = read_as(call.data, call.content_type, _KIND, "TokenRequest")
    spec: Body = dict(body.get("spec") or {})
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = _USUAL
    meta = _tracked(body.get("metadata") or {}, spec, options.manager)
    _settle_names(meta, account)
    _check_duration(spec["expirationSeconds"])
    return meta, spec


def _tracked(meta: Body, spec: Body, manager: str) -> Body:
    """Return the metadata of a request that tell who asks, as of whatever is created."""
    tracked = dict(meta)
    body = {"apiVersion": VERSION, "kind": "TokenRequest", "metadata": tracked, "spec": spec}
    track_update(
        None,
        body,
        manager=manager,
        fields=replace(FieldModel.builtin(_GROUP, "TokenRequest"), zero=_EMPTY),
        api_version=VERSION,
        subresource="token",
        now=timestamp(),
    )
    return tracked


def _settle_names(meta: Body, account: Mapping[str, Any]) -> None:
    """Give a request the names of the account, if it says nothing else.

    Raises:
        StatusError: 400 for another namespace, 422 for another name.
    """
    if meta.setdefault("namespace", account["namespace"]) != account["namespace"]:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    given, name = meta.get("name"), account["name"]
    if given and given != name:
        text = "must match the service account name if specified"
        problem = invalid("metadata.name", given, text)
        raise invalid_object("TokenRequest", _GROUP, name, [problem])
    meta["name"] = name


def _check_duration(seconds: int) -> None:
    """Refuse what is too short or too long.

    Raises:
        StatusError: 422.
    """
    if seconds < _SHORTEST:
        text = "may not specify a duration less than 10 minutes"
    elif seconds > _LONGEST:
        text = "may not specify a duration larger than 2^32 seconds"
    else:
        return
    raise invalid_object(
        "TokenRequest", _GROUP, "", [invalid("spec.expirationSeconds", seconds, text)]
    )
