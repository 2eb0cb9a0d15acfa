"""Texts of objects as visible escapes."""

import json

import pytest

from controller.plaintext import escape_json, escape_lines, escape_text, escape_values

ESCAPED_BY_CASE = {
    "a newline": ("one\ntwo", r"one\ntwo"),
    "a tabulator and a carriage return": ("a\tb\rc", r"a\tb\rc"),
    "an escape sequence": ("\x1b[2JALL GOOD", r"\x1b[2JALL GOOD"),
    "an escape sequence of C1": ("\x9b31m", r"\x9b31m"),
    "a line end of C1": ("a\x85b", r"a\x85b"),
    "delete": ("a\x7f", r"a\x7f"),
    "an override of direction": ("txt.\u202egpj", r"txt.\u202egpj"),
    "an isolate": ("\u2066a\u2069", r"\u2066a\u2069"),
    "a separator of lines": ("a\u2028b", r"a\u2028b"),
    "an invisible space": ("ad\u200bmin", r"ad\u200bmin"),
    "half of a surrogate pair": ("\udcff", r"\udcff"),
    "an invisible tag": ("\U000e0041", r"\U000e0041"),
    "what XML does not allow": ("\ufffe", r"\ufffe"),
    "letters of any script": ("Zürich 東京 עברית", "Zürich 東京 עברית"),
    "a joiner inside a word": ("می\u200cخواهم", "می\u200cخواهم"),
    "a backslash": (r"[a-z]\.", r"[a-z]\."),
}


@pytest.mark.parametrize(("content", "escaped"), ESCAPED_BY_CASE.values(), ids=ESCAPED_BY_CASE)
def test_control_characters_of_a_text_are_escaped(content: str, escaped: str) -> None:
    assert escape_text(content) == escaped
    assert escape_text(escaped) == escaped, "an escaped text stays as it is"


@pytest.mark.parametrize(
    "content", [raw_text for raw_text, _ in ESCAPED_BY_CASE.values()], ids=list(ESCAPED_BY_CASE)
)
def test_escaped_json_has_the_same_values(content: str) -> None:
    document = json.dumps({"text": content}, indent=2, ensure_ascii=False)
    escaped = escape_json(document)
    assert json.loads(escaped) == {"text": content}
    assert escape_lines(escaped) == escaped


def test_a_text_is_shortened_after_it_is_escaped() -> None:
    assert escape_text("\n" * 10, 7) == r"\n\n\n…"
    assert escape_text("\n\n", 4) == r"\n\n"


def test_a_document_is_escaped_with_its_keys() -> None:
    document = {"a\n": ["b\n", {"c": ("\x1b", 1, None)}]}
    assert escape_values(document) == {r"a\n": [r"b\n", {"c": [r"\x1b", 1, None]}]}
