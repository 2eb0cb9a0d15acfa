"""The form of an answer: the object, a table of it, or aggregated discovery.

The server writes JSON only. Go clients that prefer protobuf and also accept JSON get JSON. A
client that accepts only protobuf gets 406.
"""

from collections.abc import Mapping
from typing import Final, Literal

from envtest.memo import remember_results
from envtest.server.failures import build_not_acceptable

Form = Literal["object", "table", "groups"]
JSON: Final = "application/json"
_WILDCARDS: Final = frozenset({JSON, "application/*", "*/*", "*"})
# The parameters g, v and as (group, version, kind) of an entry of an Accept header -> the form.
_FORMS: Final[Mapping[tuple[str, ...], Form]] = {
    ("", "", ""): "object",
    ("meta.k8s.io", "v1", "Table"): "table",
    ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"): "groups",
}


@remember_results(256)
def negotiate_form(accept: str, *supported: Form) -> Form:
    """Return the supported form that the client prefers.

    Args:
        accept: the Accept header; an empty one accepts everything.
        supported: the forms that the answer can have.

    Raises:
        StatusError: 406 when the client accepts no supported form.
    """
    entries = sorted(map(_parse_accept_entry, accept.split(",")), key=lambda entry: -entry[1])
    for media, _, params in entries:
        target = tuple(params.get(name, "") for name in ("g", "v", "as"))
        form = _FORMS.get(target)
        if media in _WILDCARDS and form in supported:
            return form
    # An empty header has no entry that could match above.
    if not accept:
        return "object"
    raise build_not_acceptable((JSON,))


def _parse_accept_entry(part: str) -> tuple[str, float, Mapping[str, str]]:
    """Return media type, quality and parameters of one entry of an Accept header.

    A quality that is no number counts as 0, which sorts the entry last.
    """
    media, *rest = (piece.strip() for piece in part.split(";"))
    params = dict(piece.split("=", 1) for piece in rest if "=" in piece)
    try:
        return media.lower(), float(params.get("q", 1)), params
    except ValueError:
        return media.lower(), 0.0, params
