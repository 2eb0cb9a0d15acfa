"""In which form an answer is wanted: the object, its metadata, or a row of a table."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from envtest.server.failures import not_acceptable

Shape = Literal["object", "table", "partial"]
SPOKEN = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_META_GROUP = "meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Form:
    """A media type, and what of the object it shall carry."""

    media: str = "application/json"
    shape: Shape = "object"
    version: str = "v1"


@dataclass(frozen=True, slots=True)
class Range:
    """One entry of an Accept header."""

    media: str
    params: dict[str, str]


def ranges(accept: str) -> list[Range]:
    """Return the entries of an Accept header, the most wanted first."""
    found = []
    for at, part in enumerate(accept.split(",")):
        media, *rest = [piece.strip() for piece in part.split(";")]
        params = dict(piece.partition("=")[::2] for piece in rest if "=" in piece)
        try:
            quality = float(params.pop("q", "1"))
        except ValueError:
            quality = 0.0
        if media:
            found.append((-quality, at, Range(media.lower(), params)))
    return [entry for _, _, entry in sorted(found, key=lambda item: item[:2])]


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """Return the first form that the client wants and the server writes.

    Raises:
        StatusError: 406 when there is none.
    """
    for entry in ranges(accept or "*/*"):
        form = _form(entry)
        if form is not None:
            return form
    raise not_acceptable(SPOKEN)


def _form(entry: Range) -> Form | None:
    """Return the form of one entry, if it is spoken."""
    if entry.media in {"*/*", "application/*", "application/json"}:
        media = "application/json"
    elif entry.media in {"application/yaml", "application/x-yaml"}:
        media = "application/yaml"
    else:
        return None
    wanted = entry.params.get("as")
    if wanted is None:
        return Form(media)
    version = entry.params.get("v", "v1")
    if entry.params.get("g") != _META_GROUP or version not in {"v1", "v1beta1"}:
        return None
    if wanted == "Table":
        return Form(media, "table", version)
    if wanted in {"PartialObjectMetadata", "PartialObjectMetadataList"}:
        return Form(media, "partial", version)
    return None
