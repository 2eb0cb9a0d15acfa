"""What a service account's token is bound to: it counts no longer than those objects live."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from envtest.access.tokens import TokenRefused
from envtest.server import clock
from envtest.server.api import Api
from envtest.server.failures import StatusError, bad_request, conflict
from envtest.storage import Stored

# The kinds that a token can be bound to, in the order in which claims are checked -> plural.
_PLURALS = {"Secret": "secrets", "Pod": "pods", "Node": "nodes"}
_INVALIDATED = "service account token has been invalidated"
# How long a token counts for what is terminating.
_LEEWAY = timedelta(minutes=1)

Body = dict[str, Any]


def bound_claims(api: Api, account: Body, reference: Body) -> Body:
    """Return what a token says of the object that it is to be bound to.

    Args:
        api: the state.
        account: metadata of the service account.
        reference: the request's boundObjectRef.

    Raises:
        StatusError: the object is not there, is another one, or cannot be bound to.
    """
    kind, version = reference.get("kind", ""), reference.get("apiVersion", "")
    plural = _PLURALS.get(kind, "")
    resource = api.registry.find("", "v1", plural) if version == "v1" else None
    if resource is None:
        group, _, short = version.rpartition("/")
        raise bad_request(f"cannot bind token to object of type {group}/{short}, Kind={kind}")
    name = reference.get("name", "")
    stored = api.table(resource).get(resource.key(account["namespace"], name))
    if stored is None:
        raise resource.not_found(name)
    body = resource.load(stored)
    uid = body["metadata"]["uid"]
    if reference.get("uid") and reference["uid"] != uid:
        raise _another(kind, name, reference["uid"])
    claims: Body = {kind.lower(): {"name": name, "uid": uid}}
    if kind == "Pod":
        if (body.get("spec") or {}).get("serviceAccountName", "default") != account["name"]:
            raise bad_request(
                f'cannot bind token for serviceaccount "{account["name"]}" to pod running with '
                "different serviceaccount name."
            )
        node = (body.get("spec") or {}).get("nodeName")
        if node:
            found = api.store.table("nodes").get(node)
            known = {"uid": _metadata(found)["uid"]} if found else {}
            claims["node"] = {"name": node, **known}
    return claims


def _another(kind: str, name: str, uid: str) -> StatusError:
    why = (
        f"the UID in the bound object reference ({uid}) does not match the UID in record. "
        "The object might have been deleted and then recreated"
    )
    return conflict(kind, "", name, why)


def check_bound(api: Api, claims: Body) -> None:
    """Hold a token to the account and the objects that it was made for.

    Raises:
        TokenRefused: one of them is gone, or another one has its name.
    """
    namespace, account = claims["namespace"], claims["serviceaccount"]
    stored = api.store.table("serviceaccounts").get(f"{namespace}/{account['name']}")
    if stored is None:
        raise TokenRefused(f'serviceaccounts "{account["name"]}" not found')
    meta = _metadata(stored)
    if meta["uid"] != account["uid"]:
        raise TokenRefused(
            f"service account UID ({meta['uid']}) does not match claim ({account['uid']})"
        )
    _check_life(meta)
    for kind, plural in _PLURALS.items():
        given = claims.get(kind.lower())
        # A pod's token names its node as well, and outlives it.
        if not given or (kind == "Node" and "pod" in claims):
            continue
        key = given["name"] if kind == "Node" else f"{namespace}/{given['name']}"
        found = api.store.table(plural).get(key)
        if found is None:
            raise TokenRefused(_INVALIDATED)
        meta = _metadata(found)
        if meta["uid"] != given["uid"]:
            raise TokenRefused(
                f"{kind.lower()} UID ({meta['uid']}) does not match service account "
                f"{kind.lower()} ref claim ({given['uid']})"
            )
        _check_life(meta)


def _check_life(meta: Body) -> None:
    """Give an object that is terminating a moment, and not more.

    Raises:
        TokenRefused: it should have been gone for long.
    """
    ended = meta.get("deletionTimestamp")
    if ended and clock.now() - datetime.fromisoformat(ended) > _LEEWAY:
        raise TokenRefused(_INVALIDATED)


def _metadata(stored: Stored) -> Body:
    found: Body = msgspec.json.decode(stored.body)["metadata"]
    return found
