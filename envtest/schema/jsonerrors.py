"""Why a text is no JSON, in Go's words.

Only read after Python's scanner has refused the text: one pass over it finds the first offending
character and the place in the grammar where it stands, which is all that Go's messages tell.
"""

from __future__ import annotations

from typing import Final

END: Final = "unexpected end of JSON input"
_SPACE = " \t\r\n"
_LITERALS = {"t": "true", "f": "false", "n": "null"}


class MalformedJSON(ValueError):
    """A body that is no JSON document; the text is the server's."""


def explain(data: bytes) -> str:
    """Say what is wrong with `data`, as Go's `encoding/json` says it.

    Go reads bytes, and at the end one space more, so that what is left open meets it.

    Returns:
        The message; for a text that is JSON after all, the empty string.
    """
    try:
        _Reader(data.decode("latin-1") + " ").document()
    except MalformedJSON as error:
        return str(error)
    return ""


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def document(self) -> None:
        self._value()
        self._space()
        if self._at < len(self._text):
            raise self._unexpected("after top-level value")

    def _space(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _SPACE:
            self._at += 1

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise MalformedJSON(END)
        return self._text[self._at]

    def _unexpected(self, where: str) -> MalformedJSON:
        return MalformedJSON(f"invalid character {_rune(self._peek())} {where}")

    def _value(self) -> None:
        self._space()
        rune = self._peek()
        if rune == "{":
            self._object()
        elif rune == "[":
            self._array()
        elif rune == '"':
            self._string()
        elif rune in _LITERALS:
            self._literal(_LITERALS[rune])
        elif rune == "-" or "0" <= rune <= "9":
            self._number()
        else:
            raise self._unexpected("looking for beginning of value")

    def _object(self) -> None:
        self._at += 1
        self._space()
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            self._space()
            if self._peek() != '"':
                raise self._unexpected("looking for beginning of object key string")
            self._string()
            self._space()
            if self._peek() != ":":
                raise self._unexpected("after object key")
            self._at += 1
            self._value()
            if self._closes("}", "after object key:value pair"):
                return

    def _array(self) -> None:
        self._at += 1
        self._space()
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            self._value()
            if self._closes("]", "after array element"):
                return

    def _closes(self, bracket: str, where: str) -> bool:
        self._space()
        rune = self._peek()
        if rune not in {bracket, ","}:
            raise self._unexpected(where)
        self._at += 1
        return rune == bracket

    def _string(self) -> None:
        self._at += 1
        while (rune := self._peek()) != '"':
            if rune < " ":
                raise self._unexpected("in string literal")
            self._at += 1
            if rune == "\\":
                self._escape()
        self._at += 1

    def _escape(self) -> None:
        rune = self._peek()
        if rune not in 'bfnrt\\/"u':
            raise self._unexpected("in string escape code")
        self._at += 1
        if rune != "u":
            return
        for _ in range(4):
            if self._peek() not in "0123456789abcdefABCDEF":
                raise self._unexpected("in \\u hexadecimal character escape")
            self._at += 1

    def _literal(self, word: str) -> None:
        self._at += 1
        for letter in word[1:]:
            if self._peek() != letter:
                raise self._unexpected(f"in literal {word} (expecting {_rune(letter)})")
            self._at += 1

    def _number(self) -> None:
        if self._peek() == "-":
            self._at += 1
            self._digit("in numeric literal")
        if self._peek() == "0":
            self._at += 1
        else:
            self._digits()
        if self._next_is("."):
            self._digit("after decimal point in numeric literal")
            self._digits()
        if self._next_is("eE"):
            self._next_is("+-")
            self._digit("in exponent of numeric literal")
            self._digits()

    def _digit(self, where: str) -> None:
        if not "0" <= self._peek() <= "9":
            raise self._unexpected(where)

    def _digits(self) -> None:
        while self._at < len(self._text) and "0" <= self._text[self._at] <= "9":
            self._at += 1

    def _next_is(self, runes: str) -> bool:
        found = self._at < len(self._text) and self._text[self._at] in runes
        self._at += found
        return found


def _rune(rune: str) -> str:
    if rune == "'":
        return "'\\''"
    if rune == '"':
        return "'\"'"
    if rune.isprintable():
        return f"'{rune}'"
    named = {
        "\n": "\\n",
        "\t": "\\t",
        "\r": "\\r",
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\v": "\\v",
    }
    return f"'{named.get(rune) or _escaped(rune)}'"


def _escaped(rune: str) -> str:
    code = ord(rune)
    return f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}"
