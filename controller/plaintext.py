"""Free text of objects, made safe for a terminal, a log, a condition and a document.

Whoever may write an object chooses the texts in it. Control characters move a terminal's cursor
and make XML ill-formed; bidirectional controls show a text in another order than it is written.
"""

import re
from collections.abc import Mapping
from typing import Any

_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
"""Control characters (C0, DEL, C1), bidirectional and other invisible controls, separators of
lines, halves of surrogate pairs, and characters that XML 1.0 does not allow. Joiners (U+200C,
U+200D) are not among them: they are part of words."""
_SHORT: Mapping[str, str] = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
"""The characters that have an escape of one letter."""


def escape_text(value: str, longest: int | None = None) -> str:
    r"""Return a text in one line: control characters as visible escapes, `\n` or `\x1b`.

    A backslash stays as it is, so a text that was escaped before does not change.

    Args:
        value: a text of any origin.
        longest: characters of the longest result; a longer one ends with an ellipsis. None for no
            limit.
    """
    escaped = _UNSAFE.sub(_escape_character, value)
    return escaped if longest is None or len(escaped) <= longest else f"{escaped[: longest - 1]}…"


def escape_lines(value: str) -> str:
    """Return a text of several lines with every line escaped."""
    return "\n".join(map(escape_text, value.split("\n")))


def escape_values(value: Any) -> Any:
    """Return a document of mappings and lists with all its texts and keys escaped.

    Other values, such as numbers, stay; a tuple becomes a list.
    """
    if isinstance(value, str):
        return escape_text(value)
    if isinstance(value, Mapping):
        return {escape_values(name): escape_values(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [escape_values(part) for part in value]
    return value


def escape_json(document: str) -> str:
    r"""Return a JSON document with control characters as `\uXXXX`; its values stay the same.

    JSON itself requires escapes for C0 only. Line ends between values stay.
    """
    return _UNSAFE.sub(_escape_character_in_json, document)


def _escape_character(match: re.Match[str]) -> str:
    r"""Return the visible escape of an unsafe character, as Python writes it: `\n`, `\x1b`."""
    character = match[0]
    code = ord(character)
    if code < 0x100:
        return _SHORT.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_character_in_json(match: re.Match[str]) -> str:
    r"""Return `\uXXXX` for each UTF-16 unit of an unsafe character, as JSON has it."""
    character = match[0]
    if character in "\n\r\t":
        return character  # between values: inside a value JSON has them escaped already
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
