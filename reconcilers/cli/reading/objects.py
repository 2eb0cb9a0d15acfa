"""Documents to objects: lists are opened, each object knows where it stands."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reconcilers.cli.reading import jsontext, yamltext
from reconcilers.cli.reading.kinds import OURS
from reconcilers.cli.reading.place import Findings, Place, Step, path_text
from reconcilers.cli.reading.sources import Source
from reconcilers.cli.reading.yamltext import Malformed, line_of


@dataclass(frozen=True, slots=True)
class RawObject:
    """An object as it was written.

    Args:
        body: its fields.
        place: where it begins.
    """

    body: dict[str, Any]
    place: Place

    @property
    def api_version(self) -> str:
        """The apiVersion."""
        return str(self.body["apiVersion"])

    @property
    def kind(self) -> str:
        """The kind."""
        return str(self.body["kind"])

    @property
    def label(self) -> str:
        """What messages call it: kind, namespace and name, as far as they are known."""
        meta = self.body.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        if not isinstance(name, str) or not name:
            return f"{self.kind} without a name"
        namespace = meta.get("namespace") if isinstance(meta, dict) else None
        within = f"{namespace}/" if isinstance(namespace, str) and namespace else ""
        return f"{self.kind} {within}{name}"

    def at(self, path: tuple[Step, ...]) -> Place:
        """Return the place of the field at `path`."""
        return self.place.at(line_of(self.body, path))

    def sentence(self, path: tuple[Step, ...], what: str) -> str:
        """Return a sentence about the field at `path` of this object."""
        field = f"{path_text(path)}: " if path else ""
        return f"{self.label}: {field}{what}"


def objects(source: Source, findings: Findings) -> Iterator[RawObject]:
    """Yield the objects of a source; what is none is noted and costs no other."""
    empty = True
    for number, (line, value) in enumerate(_documents(source), 1):
        empty = False
        place = Place(source.name, number, line)
        if isinstance(value, Malformed):
            findings.error(place, f"{value.reason} (document {number})")
        elif isinstance(value, dict):
            yield from _objects(value, place, findings)
        else:
            what = "a list" if isinstance(value, list) else "a single word"
            findings.error(place, f"document {number} is {what}, not an object with a kind")
    if empty:
        findings.warning(source.name, "there is no object in it")


def _documents(source: Source) -> Iterator[tuple[int, Any]]:
    """Yield the first line and the value of each document, or what is wrong with it."""
    if source.is_json or source.text.lstrip().startswith("{"):
        try:
            yield from jsontext.parse(source.text)
            return
        except Malformed as error:
            if source.is_json:
                yield error.line, error
                return
    for before, piece in yamltext.pieces(source.text):
        try:
            yield from yamltext.parse(piece, before)
        except Malformed as error:
            yield error.line, error


_ABSENT = object()


def _objects(
    value: dict[str, Any], place: Place, findings: Findings, inside: str = ""
) -> Iterator[RawObject]:
    """Yield the object that `value` is, or those in it if it is a list."""
    api_version, kind = value.get("apiVersion"), value.get("kind")
    for name, found in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(found, str) or not found:
            what = "is missing" if found is None else f"has to be a word, not {found!r}"
            findings.error(place, f"{inside or f'document {place.document}'}: {name} {what}")
            return
    items = value.get("items", _ABSENT)
    if not str(kind).endswith("List") or ("metadata" in value and "spec" in value):
        yield RawObject(value, place)
        return
    if items is None:  # so Go writes an empty list
        return
    if not isinstance(items, list):
        what = "is missing" if items is _ABSENT else "has to be a list"
        findings.error(place, f"{kind}: items {what}")
        return
    item_kind = str(kind).removesuffix("List")
    for number, item in enumerate(items):
        where = place.at(line_of(value, ("items", number)))
        name = f"items[{number}] of the {kind} in document {place.document}"
        if not isinstance(item, dict):
            findings.error(where, f"{name} is no object")
            continue
        if item_kind in OURS:  # lists of one kind need not repeat it
            item.setdefault("apiVersion", api_version)
            item.setdefault("kind", item_kind)
        yield from _objects(item, where, findings, name)
