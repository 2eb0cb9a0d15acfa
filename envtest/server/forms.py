"""In which form an answer is wanted: JSON, YAML or protobuf; the object, its metadata, a table.

The first entry of an Accept header that can be served wins. What can be served differs by who is
asked: custom resources have no protobuf, tables have none either, refusals are never transformed,
and discovery knows a transformation of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from envtest.memo import remembered
from envtest.server.failures import StatusError, not_acceptable

Shape = Literal["object", "table", "partial"]
JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
SPOKEN = (JSON, YAML, PROTOBUF)
# A watch is a stream, which YAML is not.
STREAMED = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_Taken = TypeVar("_Taken")
_META_VERSIONS = frozenset({"v1", "v1beta1"})
_PARTIAL = frozenset({"PartialObjectMetadata", "PartialObjectMetadataList"})
_GROUPS = ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")


@dataclass(frozen=True, slots=True)
class Form:
    """A media type, and what of the object it shall carry."""

    media: str = JSON
    shape: Shape = "object"
    version: str = "v1"
    # Whether the metadata of a list is wanted, or that of one object.
    many: bool = False

    @property
    def stream(self) -> str:
        """Return the media type of a watch."""
        return JSON if self.media == JSON else f"{self.media};stream=watch"


@dataclass(frozen=True, slots=True)
class Range:
    """One entry of an Accept header."""

    media: str
    quality: float
    params: Mapping[str, str]

    def before(self, other: "Range") -> bool:
        """Tell whether this entry goes first; a type always goes before a wildcard."""
        if self.quality > other.quality:
            return True
        kind, _, sub = self.media.partition("/")
        other_kind, _, other_sub = other.media.partition("/")
        return (kind != "*" and other_kind == "*") or (sub != "*" and other_sub == "*")

    def matching(self) -> Iterator[str]:
        """Yield the media types that this entry names, those that the server prefers first."""
        if self.media in {"*/*", "application/*"}:
            yield from SPOKEN
        elif self.media in SPOKEN:
            yield self.media

    @property
    def target(self) -> tuple[str, str, str] | None:
        """Return group, version and kind of what the object shall become; nothing for itself."""
        found = tuple(self.params.get(name, "") for name in ("g", "v", "as"))
        named = any(name in self.params for name in ("g", "v", "as"))
        return (found[0], found[1], found[2]) if named else None


def ranges(accept: str) -> list[Range]:
    """Return the entries of an Accept header, the most wanted first."""
    found: list[Range] = []
    for part in accept.split(","):
        entry = _entry(part)
        if entry is None:
            continue
        # Sorted by insertion, as in Go: `before` is no order in the mathematical sense.
        at = len(found)
        while at and entry.before(found[at - 1]):
            at -= 1
        found.insert(at, entry)
    return found


def _entry(part: str) -> Range | None:
    """Return one entry; nothing if it names no media type."""
    named, *rest = part.split(";")
    pieces = [piece.strip(" ") for piece in named.split("/")]
    if pieces == ["*"]:
        pieces = ["*", "*"]
    if len(pieces) != 2 or not pieces[1]:
        return None
    params: dict[str, str] = {}
    quality = 1.0
    for piece in rest:
        name, *values = piece.split("=")
        if len(values) != 1 or not values[0]:
            continue
        if name.strip(" ") == "q":
            quality = _quality(values[0])
        else:
            params[name.strip(" ")] = values[0].strip(" ")
    return Range("/".join(pieces), quality, params)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


@remembered(256)
def negotiate(accept: str, *, custom: bool = False, verb: str = "get") -> Form:
    """Return the first form that the client wants and a resource is served in.

    Args:
        accept: the Accept header.
        custom: whether the resource is a custom one.
        verb: of the request.

    Raises:
        StatusError: 406 when there is none.
    """

    def form(entry: Range, media: str) -> Form | None:
        if entry.params.get("sv", "v1") != "v1":
            return None
        return _form(entry, media, custom=custom)

    if not custom:
        check_route(accept, (*SPOKEN, *STREAMED) if verb in {"list", "watch"} else SPOKEN)
    found = _first(accept, form) if accept else Form()
    if found is None:
        raise not_acceptable(SPOKEN)
    if verb == "watch" and found.media == YAML:
        raise not_acceptable(STREAMED)
    return found


def check_route(accept: str, produced: Sequence[str]) -> None:
    """Refuse what no route of a built-in resource has, which is found out before negotiation.

    Routes know whole media types and `*/*` alone, whatever their parameters.

    Raises:
        StatusError: 406.
    """
    wanted = {part.partition(";")[0].strip(" ") for part in (accept or "*/*").split(",")}
    if wanted.isdisjoint({"*/*", *produced}):
        text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(produced)}"
        raise StatusError(406, text, "NotAcceptable", details={})


def _first(accept: str, take: Callable[[Range, str], _Taken | None]) -> _Taken | None:
    """Return what the first entry that can be taken becomes."""
    for entry in ranges(accept):
        for media in entry.matching():
            streamed = entry.params.get("stream")
            if streamed is not None and (streamed != "watch" or media == YAML):
                continue
            taken = take(entry, media)
            if taken is not None:
                return taken
    return None


def _form(entry: Range, media: str, *, custom: bool) -> Form | None:
    """Return the form of one entry, if a resource is served in it."""
    target = entry.target
    if target is None:
        return None if custom and media == PROTOBUF else Form(media)
    group, version, kind = target
    if group != "meta.k8s.io" or version not in _META_VERSIONS:
        return None
    if kind == "Table":
        return None if media == PROTOBUF else Form(media, "table", version)
    if kind not in _PARTIAL:
        return None
    return Form(media, "partial", version, many=kind.endswith("List"))


@remembered(256)
def negotiate_plain(accept: str) -> str | None:
    """Return the media type of what is never transformed, if one is wanted: Status, discovery."""

    def media_of(entry: Range, media: str) -> str | None:
        return media if entry.target is None and "sv" not in entry.params else None

    return _first(accept, media_of) if accept else JSON


@remembered(256)
def negotiate_groups(accept: str) -> str | None:
    """Return the media type of aggregated discovery, if it is wanted.

    Entries that do not ask for it do not count, wherever they stand.
    """

    def media_of(entry: Range, media: str) -> str | None:
        return media if entry.target == _GROUPS and "sv" not in entry.params else None

    return _first(accept, media_of)
