"""Continue tokens: where the next page of a list begins, and of which revision it is.

They are the real server's own, so that a token says the same thing there and here: base64 of a
JSON object, with the key behind which to go on as it is below the collection that is listed.
"""

import base64
import json
import posixpath
from typing import Any

from envtest.patching import json_kind
from envtest.schema.gotext import json_string
from envtest.schema.jsonerrors import explain
from envtest.server.failures import StatusError, bad_request
from envtest.wire.gotexts import base64_fault, number_fault

_VERSION = "meta.k8s.io/v1"


def write_token(revision: int, key: str) -> str:
    """Return a continue token in the real server's form."""
    start = json_string(f"{key}\0")
    text = f'{{"v":"{_VERSION}","rv":{revision},"start":{start}}}'
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_token(token: str) -> tuple[int, str]:
    """Return the revision and the last key of a continue token; below 0 for what there is now.

    Raises:
        StatusError: 400 when it is none of ours.
    """
    at = base64_fault(token, url_safe=True)
    if at is not None:
        raise _bad_token(f": illegal base64 data at input byte {at}")
    plain = token.replace("\r", "").replace("\n", "")
    data = base64.urlsafe_b64decode(plain + "=" * (-len(plain) % 4))
    try:
        found = json.loads(data.decode("utf-8", "replace"), parse_int=_read, parse_float=_read)
    except ValueError:
        raise _bad_token(f": {explain(data)}") from None
    fault = _token_fault(found)
    if fault:
        raise _bad_token(f": json: cannot unmarshal {fault}")
    given = {name: value for name, value in (found or {}).items() if value is not None}
    fields = {"v": "", "rv": 0, "start": "", **given}
    if fields["v"] != _VERSION:
        raise _bad_token(f": server does not recognize this encoded version {fields['v']}")
    if not fields["rv"]:
        raise _bad_token(f": incorrect encoded start resourceVersion (version {_VERSION})")
    if not fields["start"]:
        raise _bad_token(f": encoded start key empty (version {_VERSION})")
    key = str(fields["start"]).removeprefix("/")
    if key.startswith("/") or posixpath.normpath(f"/{key}") != f"/{key}":
        raise _bad_token(f": {fields['start']}")
    return int(fields["rv"]), key.removesuffix("\0")


class _Number(float):
    """A number that is no int64, as it stands in the text."""

    text = ""


def _read(text: str) -> int | _Number:
    if number_fault(text, function="ParseInt") is None:
        return int(text)
    number = _Number(text)
    number.text = text
    return number


def _token_fault(found: Any) -> str:
    """Return why the content of a token has the wrong shape; nothing if it has the right one."""
    if found is None:
        return ""
    if not isinstance(found, dict):
        return f"{json_kind(found)} into Go value of type storage.continueToken"
    for name, kind, go_type in (
        ("v", str, "string"),
        ("rv", int, "int64"),
        ("start", str, "string"),
    ):
        value = found.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            shown = json_kind(value)
            if isinstance(value, _Number) and kind is int:
                shown = f"number {value.text}"
            return f"{shown} into Go struct field continueToken.{name} of type {go_type}"
    return ""


def _bad_token(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid{why}")
