"""Applies a mutating webhook's patch, and mends what it must not have done to metadata."""

from collections.abc import Mapping
from typing import Any, Final

from envtest.admission.answers import CallFailed, Response, failure
from envtest.admission.attributes import Body, in_version
from envtest.kinds.typed import TypedError
from envtest.patching import PatchError, decoding_error, json_patch
from envtest.schema import MalformedJSON, MalformedMetadata, MalformedObject, read_json
from envtest.schema.gotext import json_text, quote
from envtest.server.failures import internal
from envtest.server.resource import Resource

_SPOILT: Final = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an "
    "outdated mutating admission controller; please fix your requests: "
)
_TWICE: Final = (
    ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API "
    "server dedups owner references in 1.20+, and may reject such requests as early as 1.24; "
    "please fix your requests; duplicate UID(s) observed: "
)


def operations_of(response: Response) -> list[Any]:
    """Return the operations of a patch; none if nothing is to be changed.

    Raises:
        CallFailed: it is no patch.
    """
    if not response.patch:
        return []
    try:
        found, _ = read_json(response.patch)
    except MalformedJSON as error:
        raise _undecodable(str(error)) from None
    if not isinstance(found, list | None):
        raise _undecodable("it is no list of operations")
    if found and response.patch_type != "JSONPatch":
        raise CallFailed(f"unsupported patch type {quote(response.patch_type)}")
    return found or []


def _undecodable(why: str) -> CallFailed:
    return CallFailed(f"received undecodable patch in webhook response: {why}")


def amended(
    body: Body, operations: list[Any], given: Resource, seen: Resource, *, whole: bool
) -> Body:
    """Return an object with a webhook's patch applied, defaults filled in again.

    Args:
        body: the object in the version of the request.
        operations: of the JSON patch.
        given: the resource as the request names it.
        seen: the version of it that the webhook saw.
        whole: whether it is an object of the resource; else it is a Scale or the like.

    Raises:
        StatusError: 500; the patch does not apply, or makes it something else.
    """
    shown = in_version(body, given, seen) or {}
    patched = _patched(shown, operations)
    if not whole:
        return patched
    _check_kind(patched, shown, seen)
    try:
        _fit(patched, seen)
    except (TypedError, MalformedObject, MalformedMetadata) as error:
        raise failure(str(error)) from None
    seen.rules.default(patched)
    back = in_version(patched, seen, given) or {}
    if seen.rules.custom:
        # A custom resource of another kind is refused where all custom resources are.
        back["kind"] = patched["kind"]
    return back


def _patched(shown: Body, operations: list[Any]) -> Body:
    try:
        patched = json_patch(shown, operations)
    except PatchError as error:
        raise failure(f"the patch of the webhook does not apply: {error.__cause__}") from None
    if not isinstance(patched, dict):
        raise failure(f"Object 'Kind' is missing in '{json_text(patched)}'")
    return patched


def _check_kind(patched: Body, shown: Body, seen: Resource) -> None:
    """Refuse what is no object of this kind any more."""
    if not seen.rules.custom:
        kind = patched.get("kind") or seen.kind
        if kind != seen.kind:
            internal_name = f"{seen.group.partition('.')[0] or 'core'}.{seen.kind}"
            raise internal(
                f"converting ({seen.version}.{kind}) to ({internal_name}): unknown conversion"
            )
        # Go takes what does not say what it is for what is expected.
        patched |= {"apiVersion": seen.api_version, "kind": seen.kind}
        return
    if not patched.get("kind"):
        raise failure(f"Object 'Kind' is missing in '{json_text(patched)}'")
    if patched.get("apiVersion") != shown["apiVersion"]:
        text = f"request to convert CR from an invalid group/version: {patched.get('apiVersion')}"
        raise internal(text)
    if not isinstance(patched.get("metadata"), dict):
        raise failure("system metadata was not initialized")


def _fit(patched: Body, seen: Resource) -> None:
    """Give an object the shape of its kind.

    Unknown fields of custom resources stay for now: who validates sees them, the store does not.
    """
    if not seen.rules.custom:
        seen.rules.decode(patched)
        return
    # Go's ObjectMeta has no place for what is empty.
    meta = patched["metadata"]
    patched["metadata"] = {name: value for name, value in meta.items() if value}


def take_misfits(body: Body, resource: Resource) -> Body:
    """Take fields of a custom resource's metadata away that have a wrong shape; return them.

    The real server shows them to validating webhooks and drops them when it stores the object.
    """
    meta = body.get("metadata")
    if not resource.rules.custom or not isinstance(meta, dict):
        return {}
    head: Body = {name: body[name] for name in ("apiVersion", "kind") if name in body}
    misfits: Body = {}
    for name in list(meta):
        try:
            resource.rules.decode({**head, "metadata": {name: meta[name]}})
        except (MalformedObject, MalformedMetadata):
            misfits[name] = meta.pop(name)
    return misfits


def settle_metadata(body: Body, before: Body, warnings: list[str]) -> None:
    """Undo spoilt managedFields and owners that stand twice, and warn of both.

    Args:
        body: the object after all webhooks, changed in place.
        before: the object as the client wrote it.
        warnings: receives the sentences.
    """
    meta = body.get("metadata") or {}
    why = decoding_error(body)
    if why is not None:
        meta["managedFields"] = (before.get("metadata") or {}).get("managedFields", [])
        warnings.append(_SPOILT + why)
    owners: dict[str, Mapping[str, Any]] = {}
    twice: list[str] = []
    for owner in meta.get("ownerReferences") or ():
        uid = str(owner.get("uid", ""))
        if uid in owners:
            twice.append(uid)
        else:
            owners[uid] = owner
    if twice:
        meta["ownerReferences"] = list(owners.values())
        warnings.append(_TWICE + ", ".join(dict.fromkeys(twice)))
