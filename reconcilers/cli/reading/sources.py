"""Where manifests come from: files, folders, standard input. What cannot be read says so."""

import codecs
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from reconcilers.cli.reading.place import Findings

STANDARD_INPUT = "standard input"
SUFFIXES = (".yaml", ".yml", ".json")

_WIDE = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class Source:
    """A text to read manifests from.

    Args:
        name: how messages call it.
        text: what it holds.
        is_json: whether its name says that it is JSON.
    """

    name: str
    text: str
    is_json: bool = False


def sources(wanted: Iterable[str], *, recursive: bool, findings: Findings) -> Iterator[Source]:
    """Yield what is to be read, in order, each file once; note what cannot be read.

    Args:
        wanted: files, folders, and `-` for standard input.
        recursive: whether folders inside folders count.
        findings: told of what cannot be read.
    """
    seen: set[Path | str] = set()
    for name in wanted:
        for path in _files(name, recursive=recursive, findings=findings):
            identity = path.resolve() if isinstance(path, Path) else path
            if identity in seen:
                continue
            seen.add(identity)
            data = _bytes(path, findings)
            if data is None:
                continue
            label = str(path)
            text = _text(label, data, findings)
            if text is not None:
                yield Source(label, text, label.endswith(".json"))


def _files(name: str, *, recursive: bool, findings: Findings) -> Iterator[Path | str]:
    if name == "-":
        yield STANDARD_INPUT
        return
    if name.startswith(("http://", "https://")):
        findings.error(name, "this is a URL; download it first, plan reads files only")
        return
    path = Path(name)
    if not path.is_dir():
        yield path
        return
    try:
        inside = sorted(path.rglob("*") if recursive else path.iterdir())
    except OSError as error:
        findings.error(name, _why(error))
        return
    found = [one for one in inside if one.suffix in SUFFIXES and not one.is_dir()]
    if not found:
        hint = "" if recursive else "; -R looks into the folders in it too"
        findings.error(name, f"no {', '.join(SUFFIXES)} file is in this folder{hint}")
    yield from found


def _bytes(path: Path | str, findings: Findings) -> bytes | None:
    try:
        return path.read_bytes() if isinstance(path, Path) else sys.stdin.buffer.read()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        findings.error(path, _why(error))
        return None


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder"
    if isinstance(error, PermissionError):
        return "this cannot be read: permission denied"
    return f"this cannot be read: {getattr(error, 'strerror', None) or error}"


def _text(name: str, data: bytes, findings: Findings) -> str | None:
    if data.startswith(_WIDE):
        findings.error(name, "this is UTF-16 or UTF-32; save it as UTF-8")
        return None
    if b"\0" in data:
        findings.error(name, "this is a binary file, neither YAML nor JSON")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        where = f"byte 0x{data[error.start]:02x} in line {line}"
        findings.error(name, f"this is no text in UTF-8 ({where}); save it as UTF-8")
        return None
