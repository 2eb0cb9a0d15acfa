"""Files, folders and standard input to objects, each of which knows where it stands.

What cannot be read, or is no object, is noted and costs no other. Lists are opened. Kinds of
Kubernetes itself, and those of Butler that others look after, say nothing about addresses: they
are passed over. A kind that is none of these is more likely a slip than meant.
"""

import codecs
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import IO, Any

import yaml

from reconcilers.api import names
from reconcilers.api.resources import OWN_KINDS
from reconcilers.cli.reading import yamltext
from reconcilers.cli.reading.findings import Findings, Place, Step, path_text
from reconcilers.cli.reading.yamltext import Malformed, line_of

SUFFIXES = (".yaml", ".yml", ".json")

MOST_BYTES = 1 << 30
"""The longest text that is read: an endless pipe would take all memory. A full pool of 65,000
allocations is exported as 150 MB, and the objects in so long a text would take ten times this."""
_CHUNK = 1 << 20

_WIDE = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BUILT_IN: Mapping[str, Sequence[str]] = yaml.safe_load(
    files(__package__).joinpath("kinds.yaml").read_text(encoding="utf-8")
)
"""Kinds of Kubernetes, and of Butler, that say nothing about addresses, by API group."""
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class RawObject:
    """An object as it was written, and where it begins."""

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
        name, namespace = (
            (meta.get("name"), meta.get("namespace")) if isinstance(meta, dict) else (None, None)
        )
        if not isinstance(name, str) or not name:
            return f"{self.kind} without a name"
        within = f"{namespace}/" if isinstance(namespace, str) and namespace else ""
        return f"{self.kind} {within}{name}"

    @property
    def is_ours(self) -> bool:
        """Whether it is of one of the four kinds, in the version that is served."""
        return self.api_version == names.API_VERSION and self.kind in OWN_KINDS

    @property
    def is_known(self) -> bool:
        """Whether it is of a known kind that has nothing to do with addresses."""
        return self.kind in _BUILT_IN.get(_group(self.api_version), ())

    def at(self, path: tuple[Step, ...]) -> Place:
        """Return the place of the field at `path`."""
        return self.place.at(line_of(self.body, path))

    def sentence(self, path: tuple[Step, ...], problem: str) -> str:
        """Return a sentence about the field at `path` of this object."""
        field = f"{path_text(path)}: " if path else ""
        return f"{self.label}: {field}{problem}"


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def why_unknown(api_version: str, kind: str) -> str:
    """Return a sentence about an apiVersion and kind that are neither ours nor known."""
    from reconcilers.api import crd

    group = _group(api_version)
    if kind in OWN_KINDS:
        other = "another version" if group == names.GROUP else "of another group"
        return (
            f"{kind} of apiVersion {api_version!r} is {other}; write apiVersion:"
            f" {names.API_VERSION}"
        )
    groups = [group] if group == names.GROUP else [*_BUILT_IN]
    known = {
        name.lower(): name for known_group in reversed(groups) for name in _BUILT_IN[known_group]
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
        findings: takes what cannot be read, and what is no object.
        recursive: whether folders inside folders are read.
    """
    seen: set[str | None] = set()
    for name in paths:
        for path in _files(name, recursive=recursive, findings=findings):
            identity = os.path.realpath(path) if path else None
            if identity in seen:
                continue
            seen.add(identity)
            source = "standard input" if path is None else str(path)
            content = _text(source, path, findings)
            if content is not None:
                yield from _of_text(source, content, findings)


def _files(name: str, *, recursive: bool, findings: Findings) -> Iterator[Path | None]:
    """Yield the files that an argument means; None is standard input."""
    if name == "-" and sys.stdin is None:
        findings.error(
            "standard input",
            "standard input is closed; pass a file, or pipe manifests into the command",
        )
    elif name == "-":
        yield None
    elif not name:
        findings.error("--filename", "the name of the file is empty; name a file or a folder")
    elif name.startswith(("http://", "https://")):
        findings.error(name, "this is a URL; download it first, only files are read")
    elif not os.path.isdir(name):  # Path.is_dir and Path.rglob raise, and pass over, other errors
        yield Path(name)
    else:
        failed: list[OSError] = []
        walk = islice(os.walk(name, onerror=failed.append), None if recursive else 1)
        inside = (
            Path(folder, file_name) for folder, _, files_in in walk for file_name in files_in
        )
        paths = sorted(path for path in inside if path.suffix in SUFFIXES)
        for error in failed:
            findings.error(str(error.filename), _why(error))
        if not paths and not failed:
            hint = "" if recursive else "; -R looks into the folders in it too"
            findings.error(name, f"no {', '.join(SUFFIXES)} file is in this folder{hint}")
        yield from paths


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder"
    return f"this cannot be read: {getattr(error, 'strerror', None) or error}"


def _text(source: str, path: Path | None, findings: Findings) -> str | None:
    try:
        with nullcontext(sys.stdin.buffer) if path is None else path.open("rb") as file:
            data = _bytes(file)
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
        problem = _why(error)
    findings.error(source, problem)
    return None


def _bytes(file: IO[bytes]) -> bytearray:
    """Return all of a file; raise ValueError if that is more than a text of objects can be."""
    data = bytearray()
    while chunk := file.read(_CHUNK):
        data += chunk
        if len(data) > MOST_BYTES:
            raise ValueError(
                f"it is longer than {MOST_BYTES >> 20} MiB; split it into smaller files"
            )
    return data


def _of_text(source: str, content: str, findings: Findings) -> Iterator[RawObject]:
    number = 0
    for number, (line, value) in enumerate(_documents(source, content), 1):
        place = Place(source, number, line)
        if isinstance(value, Malformed):
            findings.error(place, f"{value.reason} (document {number})")
        elif isinstance(value, dict):
            yield from _open(value, place, findings)
        else:
            kind_of_value = "a list" if isinstance(value, list) else "a single word"
            findings.error(
                place, f"document {number} is {kind_of_value}, not an object with a kind"
            )
    if not number:
        findings.warning(source, "it contains no object")


def _documents(source: str, content: str) -> Iterator[tuple[int, Any]]:
    """Yield the first line and the value of each document, or what is wrong with it."""
    is_json = source.endswith(".json")
    if is_json or content.lstrip().startswith("{"):
        try:
            yield from yamltext.parse_json(content)
            return
        except Malformed as error:
            if is_json:
                yield error.line, error
                return
    for before, piece in yamltext.pieces(content):
        try:
            yield from yamltext.parse(piece, before)
        except Malformed as error:
            yield error.line, error


def _open(
    value: dict[str, Any], place: Place, findings: Findings, inside: str = ""
) -> Iterator[RawObject]:
    """Yield the object that `value` is, or those in it if it is a list."""
    api_version, kind = value.get("apiVersion"), value.get("kind")
    for name, field in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(field, str) or not field:
            problem = "is missing" if field is None else f"must be a string, not {field!r}"
            findings.error(place, f"{inside or f'document {place.document}'}: {name} {problem}")
            return
    items = value.get("items", _ABSENT)
    if not str(kind).endswith("List") or ("metadata" in value and "spec" in value):
        yield RawObject(value, place)
        return
    if items is None:  # so Go writes an empty list
        return
    if not isinstance(items, list):
        problem = "is missing" if items is _ABSENT else "must be a list"
        findings.error(place, f"{kind}: items {problem}")
        return
    item_kind = str(kind).removesuffix("List")
    for number, item in enumerate(items):
        where = place.at(line_of(value, ("items", number)))
        name = f"items[{number}] of the {kind} in document {place.document}"
        if not isinstance(item, dict):
            findings.error(where, f"{name} is not an object")
            continue
        if item_kind in OWN_KINDS:  # lists of one kind need not repeat it
            item.setdefault("apiVersion", api_version)
            item.setdefault("kind", item_kind)
        yield from _open(item, where, findings=findings, inside=name)
