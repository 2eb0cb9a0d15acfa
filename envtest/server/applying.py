"""Server-side apply: create or update what the applier owns."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from envtest.patching import apply, json_kind
from envtest.schema import MalformedYAML, read_yaml
from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.bodies import Decoded, judge_complaints
from envtest.server.call import Call, One
from envtest.server.failures import StatusError, bad_request
from envtest.server.options import WriteOptions
from envtest.server.ownership import settle_owners
from envtest.server.patched import TRIES, fit_patched
from envtest.server.writes import check_names, create_object, update_object

_decode = msgspec.json.Decoder(dict[str, Any]).decode


async def apply_patch(api: Api, call: Call, options: WriteOptions) -> One:
    """Create or update what the applier owns."""
    resource = call.resource
    applied, duplicates = read_applied(call)
    for attempt in range(TRIES):
        stored = api.table(resource).get(call.key)
        if stored is None and call.info.subresource:
            raise resource.not_found(call.info.name)
        if stored is not None:
            await resource.ready([stored])
        live = resource.load(stored) if stored else None
        settle = partial(
            apply,
            live,
            applied,
            manager=options.manager,
            force=options.force,
            fields=resource.rules.model(),
            subresource=call.info.subresource,
            now=objectmeta.timestamp(),
            kind=(resource.api_version, resource.kind),
            versions=resource.versions,
        )
        owners = None if live is None else live["metadata"].get("managedFields")
        result = await settle_owners(resource, owners, settle)
        body = strict_copy(result)
        judge_duplicates(call, options, duplicates)
        decoded = Decoded(body)
        fit_patched(resource, decoded, {}, partial(_decode, msgspec.json.encode(body)))
        judge_complaints(resource, decoded, options.field_validation, call.warnings)
        # Only now: a conflict wins over a wrong name.
        check_names(call, body)
        if stored is None or live is None:
            _refuse_uid(call, body)
            body["metadata"].pop("resourceVersion", None)
            return await create_object(api, call, body, options, tracked=True)
        try:
            return await update_object(
                api, call, stored, resource.load(stored), body, options, tracked=True
            )
        except StatusError as error:
            moved = api.table(resource).get(call.key) is not stored
            if error.code != 409 or not moved or attempt == TRIES - 1:
                raise
    raise resource.conflict(call.info.name)


def _refuse_uid(call: Call, body: Mapping[str, Any]) -> None:
    """Refuse to create what was to be applied to one particular object.

    Raises:
        StatusError: 409.
    """
    uid = body["metadata"].get("uid")
    if uid:
        raise call.resource.conflict(
            call.info.name,
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was"
            " found",
        )


def judge_duplicates(call: Call, options: WriteOptions, duplicates: list[str]) -> None:
    """Refuse, report or ignore keys of an applied document that stand twice.

    Raises:
        StatusError: 400 under Strict.
    """
    if not duplicates or options.field_validation == "Ignore":
        return
    if options.field_validation == "Strict":
        raise bad_request(f"strict decoding error: {', '.join(duplicates)}")
    call.warnings += duplicates


def strict_copy(body: dict[str, Any]) -> dict[str, Any]:
    """Return an object of the same content that shares nothing with others."""
    copied: dict[str, Any] = _copy(body)
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def read_applied(call: Call) -> tuple[dict[str, Any], list[str]]:
    """Read the body of an apply: YAML, of which JSON is a part; return complaints with it."""
    try:
        content, duplicates = read_yaml(call.data)
    except MalformedYAML as error:
        text = f"error decoding YAML: error converting YAML to JSON: {error}"
        raise bad_request(text) from None
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {json_kind(content)} into Go value of type map[string]interface {{}}"
        )
    return content, duplicates
