"""Continue tokens: where the next page of a list begins, and of which revision it is.

They are the real server's own, so that a token says the same thing there and here: base64 of a
JSON object, with the key behind which to go on as it is below the collection that is listed.
"""

import base64
import posixpath

import msgspec

from envtest.schema.gotext import json_text
from envtest.server.failures import StatusError, bad_request

_VERSION = "meta.k8s.io/v1"


class _Token(msgspec.Struct):
    """The content of a continue token."""

    v: str = ""
    rv: int = 0
    start: str = ""


def write_token(revision: int, key: str) -> str:
    """Return a continue token in the real server's form."""
    start = json_text(f"{key}\0")
    text = f'{{"v":"{_VERSION}","rv":{revision},"start":{start}}}'
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_token(token: str) -> tuple[int, str]:
    """Return the revision and the last key of a continue token; below 0 for what there is now.

    Raises:
        StatusError: 400 when it is none of ours.
    """
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        fields = msgspec.json.decode(data, type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise _bad_token(f": {error}") from None
    if fields.v != _VERSION:
        raise _bad_token(f": server does not recognize this encoded version {fields.v}")
    if not fields.rv:
        raise _bad_token(f": incorrect encoded start resourceVersion (version {_VERSION})")
    if not fields.start:
        raise _bad_token(f": encoded start key empty (version {_VERSION})")
    key = fields.start.removeprefix("/")
    if key.startswith("/") or posixpath.normpath(f"/{key}") != f"/{key}":
        raise _bad_token(f": {fields.start}")
    return fields.rv, key.removesuffix("\0")


def _bad_token(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid{why}")
