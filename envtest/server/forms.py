"""In which form an answer is wanted: the object, a table of it, or all of discovery at once.

JSON is the only format that is written. Go clients ask for protobuf before it and get JSON; a
client that accepts nothing else gets 406.
"""

from collections.abc import Mapping
from typing import Final, Literal

from envtest.memo import remember_results
from envtest.server.failures import not_acceptable

Form = Literal["object", "table", "groups"]
JSON: Final = "application/json"
_WILDCARDS: Final = frozenset({JSON, "application/*", "*/*", "*"})
# Group, version and kind that an entry of an Accept header asks for, and the form that this is.
_FORMS: Final[Mapping[tuple[str, ...], Form]] = {
    ("", "", ""): "object",
    ("meta.k8s.io", "v1", "Table"): "table",
    ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"): "groups",
}


@remember_results(256)
def negotiate(accept: str, *supported: Form) -> Form:
    """Return the first form that the client wants among those that are served.

    Args:
        accept: the Accept header; nothing stands for anything.
        supported: the forms that the answer can have.

    Raises:
        StatusError: 406 when there is none.
    """
    entries = sorted(map(_entry, accept.split(",")), key=lambda entry: -entry[1])
    for media, _, params in entries:
        target = tuple(params.get(name, "") for name in ("g", "v", "as"))
        form = _FORMS.get(target)
        if media in _WILDCARDS and form in supported:
            return form
    if not accept:
        return "object"
    raise not_acceptable((JSON,))


def _entry(part: str) -> tuple[str, float, Mapping[str, str]]:
    """Return media type, quality and parameters of one entry of an Accept header."""
    media, *rest = (piece.strip() for piece in part.split(";"))
    params = dict(piece.split("=", 1) for piece in rest if "=" in piece)
    try:
        return media.lower(), float(params.get("q", 1)), params
    except ValueError:
        return media.lower(), 0.0, params
