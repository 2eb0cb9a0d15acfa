"""Reads files, folders and standard input to objects that know their file and line.

A text that cannot be read, or a document that is no object, becomes a finding; the other objects
are read all the same. A list of Kubernetes is replaced by its items. Kinds of Kubernetes itself,
and kinds of Butler that other controllers serve, say nothing about addresses and are skipped. Any
other kind is likely a mistake.
"""

import codecs
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import IO, Any

from reconcilers.api import names
from reconcilers.api.resources import OWN_KINDS
from reconcilers.cli.reading import yamltext
from reconcilers.cli.reading.findings import Findings, Place, Step, format_path
from reconcilers.cli.reading.otherkinds import OTHER_KINDS
from reconcilers.cli.reading.yamltext import Malformed, find_line

SUFFIXES = (".yaml", ".yml", ".json")

MOST_BYTES = 1 << 30
"""The longest text that is read: an endless pipe would take all memory. A full pool of 65,000
allocations is exported as 150 MB, and the objects in so long a text would take ten times this."""
_CHUNK = 1 << 20
"""How many bytes are read at once."""

_WIDE = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The bytes with which a text in UTF-16 or UTF-32 begins."""
_ABSENT = object()
"""Stands for a field that is absent, because a field may be null."""


@dataclass(frozen=True, slots=True)
class RawObject:
    """An object as it is in its file, and the place where it begins."""

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
        """Kind, namespace and name for messages, as far as they are known."""
        meta = self.body.get("metadata")
        name, namespace = (
            (meta.get("name"), meta.get("namespace")) if isinstance(meta, dict) else (None, None)
        )
        if not isinstance(name, str) or not name:
            return f"{self.kind} without a name"
        within = f"{namespace}/" if isinstance(namespace, str) and namespace else ""
        return f"{self.kind} {within}{name}"

    @property
    def is_ours(self) -> bool:
        """Whether the object is of one of our four kinds, in the served version."""
        return self.api_version == names.API_VERSION and self.kind in OWN_KINDS

    @property
    def is_known(self) -> bool:
        """Whether the object is of a known kind that has nothing to do with addresses."""
        return self.kind in OTHER_KINDS.get(_find_group(self.api_version), ())

    def at(self, path: tuple[Step, ...]) -> Place:
        """Return the place of the field at `path`."""
        return self.place.at(find_line(self.body, path))

    def build_sentence(self, path: tuple[Step, ...], problem: str) -> str:
        """Return a sentence about the field at `path` of this object."""
        field = f"{format_path(path)}: " if path else ""
        return f"{self.label}: {field}{problem}"


def _find_group(api_version: str) -> str:
    """Return the API group of an apiVersion; empty for the core group."""
    return api_version.rpartition("/")[0]


def describe_unknown_kind(api_version: str, kind: str) -> str:
    """Return a sentence about an apiVersion and kind that are neither ours nor known.

    1. One of our kinds in another version or group.
    2. A kind with a name similar to a known kind: the sentence asks whether that is meant.
    3. Any other kind.
    """
    from reconcilers.api import crd

    group = _find_group(api_version)
    if kind in OWN_KINDS:
        other = "another version" if group == names.GROUP else "of another group"
        return (
            f"{kind} of apiVersion {api_version!r} is {other}; write apiVersion:"
            f" {names.API_VERSION}"
        )
    groups = [group] if group == names.GROUP else [*OTHER_KINDS]
    # Of the groups with a kind of one name, the first one in OTHER_KINDS counts. Our own kinds,
    # their plurals and their short names come before all of them.
    known = {
        name.lower(): name for known_group in reversed(groups) for name in OTHER_KINDS[known_group]
    }
    for ours in crd.KINDS:
        known |= dict.fromkeys((ours.kind.lower(), ours.plural, ours.short), ours.kind)
    near = get_close_matches(kind.lower(), known, n=1, cutoff=0.7)
    hint = (
        f"did you mean {known[near[0]]}?"
        if near
        else f"the kinds known are {', '.join(OWN_KINDS)}"
    )
    return f"butler-ipam knows no kind {kind!r} in {api_version}; {hint}"


def read_objects(
    paths: Iterable[str], findings: Findings, *, recursive: bool
) -> Iterator[RawObject]:
    """Yield the objects of files, folders, and `-` for standard input, each file once.

    Args:
        paths: of the files and folders.
        findings: takes the faults: unreadable files, and documents that are no objects.
        recursive: whether folders inside folders are read.
    """
    read_files: set[str | None] = set()
    for name in paths:
        for path in _list_files(name, recursive=recursive, findings=findings):
            identity = os.path.realpath(path) if path else None
            if identity in read_files:
                continue  # a file that is named twice is read once: its objects are no duplicates
            read_files.add(identity)
            source = "standard input" if path is None else str(path)
            content = _read_text(source, path, findings)
            if content is not None:
                yield from _parse_text(source, content, findings)


def _list_files(name: str, *, recursive: bool, findings: Findings) -> Iterator[Path | None]:
    """Yield the files that an argument of --filename means; None means standard input.

    An argument that is no file or folder becomes a finding, and so does an empty folder.
    """
    if name == "-" and sys.stdin is None:
        findings.add_error(
            "standard input",
            "standard input is closed; pass a file, or pipe manifests into the command",
        )
    elif name == "-":
        yield None
    elif not name:
        findings.add_error("--filename", "the name of the file is empty; name a file or a folder")
    elif name.startswith(("http://", "https://")):
        findings.add_error(name, "this is a URL; download it first, only files are read")
    # pathlib is not used here: Path.is_dir raises some errors, and Path.rglob skips folders that
    # it cannot read. os.walk reports them.
    elif not os.path.isdir(name):
        yield Path(name)
    else:
        failed: list[OSError] = []
        walk = islice(os.walk(name, onerror=failed.append), None if recursive else 1)
        inside = (
            Path(folder, file_name) for folder, _, files_in in walk for file_name in files_in
        )
        paths = sorted(path for path in inside if path.suffix in SUFFIXES)
        for error in failed:
            findings.add_error(str(error.filename), _describe_error(error))
        if not paths and not failed:
            hint = "" if recursive else "; -R looks into the folders in it too"
            findings.add_error(name, f"no {', '.join(SUFFIXES)} file is in this folder{hint}")
        yield from paths


def _describe_error(error: OSError | ValueError) -> str:
    """Return why a file cannot be read, as a sentence without the name of the file."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder"
    return f"this cannot be read: {getattr(error, 'strerror', None) or error}"


def _read_text(source: str, path: Path | None, findings: Findings) -> str | None:
    """Return the text of a file or of standard input; None with a finding if it is unreadable.

    Args:
        source: the name for messages.
        path: of the file; None for standard input.
    """
    try:
        with nullcontext(sys.stdin.buffer) if path is None else path.open("rb") as file:
            data = _read_bytes(file)
        if not data.startswith(_WIDE) and b"\0" not in data:
            return data.decode("utf-8-sig")
        problem = "this is a binary file, neither YAML nor JSON"
        if data.startswith(_WIDE):
            problem = "this is UTF-16 or UTF-32; save it as UTF-8"
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        where = f"byte 0x{error.object[error.start]:02x} in line {line}"
        problem = f"this is not UTF-8 text ({where}); save it as UTF-8"
    except (OSError, ValueError) as error:  # ValueError: too long, or a NUL in the name
        problem = _describe_error(error)
    findings.add_error(source, problem)
    return None


def _read_bytes(file: IO[bytes]) -> bytearray:
    """Return all bytes of a file; raise ValueError if there are more than MOST_BYTES."""
    data = bytearray()
    while chunk := file.read(_CHUNK):
        data += chunk
        if len(data) > MOST_BYTES:
            raise ValueError(
                f"it is longer than {MOST_BYTES >> 20} MiB; split it into smaller files"
            )
    return data


def _parse_text(source: str, content: str, findings: Findings) -> Iterator[RawObject]:
    """Yield the objects in the documents of a text; a document without an object is a finding."""
    number = 0
    for number, (line, value) in enumerate(_parse_documents(source, content), 1):
        place = Place(source, number, line)
        if isinstance(value, Malformed):
            findings.add_error(place, f"{value.reason} (document {number})")
        elif isinstance(value, dict):
            yield from _expand_lists(value, place, findings)
        else:
            kind_of_value = "a list" if isinstance(value, list) else "a single word"
            findings.add_error(
                place, f"document {number} is {kind_of_value}, not an object with a kind"
            )
    if not number:
        findings.add_warning(source, "it contains no object")


def _parse_documents(source: str, content: str) -> Iterator[tuple[int, Any]]:
    """Yield the first line and the value of each document; for a faulty document, the exception.

    A file with suffix .json is parsed as JSON. Another text that begins with a brace is parsed as
    JSON, too; if that fails, as YAML, whose mappings may also begin with a brace.
    """
    is_json = source.endswith(".json")
    if is_json or content.lstrip().startswith("{"):
        try:
            yield from yamltext.parse_json(content)
            return
        except Malformed as error:
            if is_json:
                yield error.line, error
                return
    for before, piece in yamltext.cut_at_separators(content):
        try:
            yield from yamltext.parse_yaml(piece, before)
        except Malformed as error:
            yield error.line, error


def _expand_lists(
    value: dict[str, Any], place: Place, findings: Findings, inside: str = ""
) -> Iterator[RawObject]:
    """Yield an object, or the objects in it if it is a list of Kubernetes.

    Args:
        value: a mapping that should have an apiVersion and a kind.
        place: where it begins.
        inside: names the item for messages if the mapping is an item of a list; empty if not.
    """
    api_version, kind = value.get("apiVersion"), value.get("kind")
    for name, field in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(field, str) or not field:
            problem = "is missing" if field is None else f"must be a string, not {field!r}"
            findings.add_error(
                place, f"{inside or f'document {place.document}'}: {name} {problem}"
            )
            return
    items = value.get("items", _ABSENT)
    if not str(kind).endswith("List") or ("metadata" in value and "spec" in value):
        # An object whose kind merely ends in "List" has a spec.
        yield RawObject(value, place)
        return
    if items is None:  # Go writes an empty list as null
        return
    if not isinstance(items, list):
        problem = "is missing" if items is _ABSENT else "must be a list"
        findings.add_error(place, f"{kind}: items {problem}")
        return
    item_kind = str(kind).removesuffix("List")
    for number, item in enumerate(items):
        where = place.at(find_line(value, ("items", number)))
        name = f"items[{number}] of the {kind} in document {place.document}"
        if not isinstance(item, dict):
            findings.add_error(where, f"{name} is not an object")
            continue
        if item_kind in OWN_KINDS:  # items of a NetworkPoolList and so on may leave their kind out
            item.setdefault("apiVersion", api_version)
            item.setdefault("kind", item_kind)
        yield from _expand_lists(item, where, findings=findings, inside=name)
