r"""Regular expressions of Go (RE2) run by Python's `re`.

Both know the same core; what differs is translated, so that a pattern means the same here as on
the server: classes are ASCII, `$` and `\z` stand for the very end, `[` is ordinary inside a
class, `\Q…\E`, `\pL`, `[[:alpha:]]`, `(?<name>…)` and flags in mid-pattern exist. What RE2
refuses (look-around, back-references, possessive repeats) is refused here.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PERL = {"d": "0-9", "s": "\\t\\n\\f\\r ", "w": "0-9A-Za-z_"}
_NOT_PERL = {
    "D": "\\x00-/:-\\U0010ffff",
    "S": "\\x00-\\x08\\x0b\\x0e-\\x1f!-\\U0010ffff",
    "W": "\\x00-/:-@\\[-\\^`{-\\U0010ffff",
}
_SCRIPTS = {
    "Arabic": "ARABIC ",
    "Cyrillic": "CYRILLIC ",
    "Greek": "GREEK ",
    "Han": "CJK UNIFIED ",
    "Hangul": "HANGUL ",
    "Hebrew": "HEBREW ",
    "Hiragana": "HIRAGANA ",
    "Katakana": "KATAKANA ",
    "Latin": "LATIN ",
    "Thai": "THAI ",
}
# Characters that stand for themselves in Go; and `^`, which Go lets repeat.
_ORDINARY = {"{": "\\{", "}": "\\}", "]": "\\]", "^": "(?:^)"}
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")


class InvalidPattern(ValueError):
    """The pattern is no RE2 expression; the text is Go's, `error parsing regexp: …`."""


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a Go pattern.

    Raises:
        InvalidPattern: Go would not compile it either.
    """
    try:
        return re.compile(_Translator(pattern).translate(), re.ASCII)
    except InvalidPattern:
        raise
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidPattern(f"error parsing regexp: invalid regexp: `{pattern}`") from error


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._source = pattern
        self._at = 0
        self._out: list[str] = []
        # For every open group how many flag groups opened inside it have to be closed with it.
        self._open: list[int] = [0]
        self._multiline = [False]

    def translate(self) -> str:
        repeatable = False
        while self._at < len(self._source):
            repeatable = self._token(repeatable)
        if len(self._open) > 1:
            raise self._refuse("missing closing )", self._source)
        return "".join(self._out) + ")" * self._open[0]

    def _refuse(self, what: str, part: str) -> InvalidPattern:
        return InvalidPattern(f"error parsing regexp: {what}: `{part}`")

    def _token(self, repeatable: bool) -> bool:
        """Translate one token; return whether a repeat may follow it."""
        rune = self._source[self._at]
        special = {
            "\\": self._escape,
            "[": self._char_class,
            "(": self._group,
            ")": self._close,
            "$": self._end,
        }.get(rune)
        if special is not None:
            return special()
        if rune in "*+?" or (rune == "{" and _REPEAT.match(self._source, self._at)):
            return self._repeat(repeatable)
        self._at += 1
        self._out.append(_ORDINARY.get(rune, rune))
        return rune != "|"

    def _repeat(self, repeatable: bool) -> bool:
        found = _REPEAT.match(self._source, self._at) or re.compile(r"[*+?]").match(
            self._source, self._at
        )
        assert found is not None
        operator = found.group()
        if not repeatable:
            raise self._refuse("missing argument to repetition operator", operator)
        self._bounds(found)
        self._at = found.end()
        lazy = self._source.startswith("?", self._at)
        self._at += lazy
        following = re.compile(r"[*+?]|\{\d+(,\d*)?\}").match(self._source, self._at)
        if following:
            nested = operator + ("?" if lazy else "") + following.group()
            raise self._refuse("invalid nested repetition operator", nested)
        self._out.append(operator + ("?" if lazy else ""))
        return True

    def _bounds(self, found: re.Match[str]) -> None:
        if not found.group().startswith("{"):
            return
        low, _, high = found.groups()
        if int(low) > 1000 or (high and (int(high) > 1000 or int(high) < int(low))):
            raise self._refuse("invalid repeat count", found.group())

    def _end(self) -> bool:
        self._at += 1
        self._out.append("$" if self._multiline[-1] else "\\Z")
        return True

    def _close(self) -> bool:
        if len(self._open) == 1:
            raise self._refuse("unexpected )", self._source)
        self._at += 1
        self._out.append(")" * (self._open.pop() + 1))
        self._multiline.pop()
        return True

    def _group(self) -> bool:
        found = re.compile(r"\((?:\?(?:P?<(\w+)>|([imsU]*(?:-[imsU]+)?)([:)])|(.?)))?").match(
            self._source, self._at
        )
        assert found is not None
        _, flags, closing, other = found.groups()
        if other == "<":
            raise self._refuse("invalid named capture", self._source[self._at :])
        if other is not None:
            bad = self._source[self._at : self._at + 3]
            raise self._refuse("invalid or unsupported Perl syntax", bad)
        self._at = found.end()
        multiline = self._flag("m", flags or "", self._multiline[-1])
        if closing == ")":
            self._multiline[-1] = multiline
            self._out.append(_flag_group(flags or ""))
            self._open[-1] += 1
            return False
        self._open.append(0)
        self._multiline.append(multiline)
        # Names are dropped: nothing reads them, and Go lets one name stand twice.
        self._out.append(_flag_group(flags or "") if closing else "(")
        return False

    def _flag(self, letter: str, flags: str, current: bool) -> bool:
        on, _, off = flags.partition("-")
        return (letter in on) or (current and letter not in off)

    def _escape(self) -> bool:
        source, start = self._source, self._at
        if start + 1 >= len(source):
            raise self._refuse("trailing backslash at end of expression", "")
        rune = source[start + 1]
        if rune == "Q":
            end = source.find("\\E", start)
            self._out.append(re.escape(source[start + 2 : end if end >= 0 else len(source)]))
            self._at = end + 2 if end >= 0 else len(source)
            return True
        anchors = {"z": "\\Z", "A": "\\A", "b": "\\b", "B": "\\B"}
        if rune in anchors:
            self._at += 2
            self._out.append(anchors[rune])
            return True
        if rune == "C":
            self._at += 2
            self._out.append("(?s:.)")
            return True
        members, single = self._escaped_members()
        self._out.append(members if single else f"[{members}]")
        return True

    def _escaped_members(self) -> tuple[str, bool]:
        """Members of a class for the escape at hand, and whether it is one single character."""
        source, start = self._source, self._at
        rune = source[start + 1] if start + 1 < len(source) else ""
        if rune in _PERL or rune in _NOT_PERL:
            self._at += 2
            return _PERL.get(rune) or _NOT_PERL[rune], False
        if rune in {"p", "P"}:
            return self._unicode(rune == "P"), False
        found = re.compile(
            r"\\(?:x\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{2})|([0-7]{2,3}|0)|([aftnrv])|([^\w]|_))"
        ).match(source, start)
        if found is None:
            raise self._refuse("invalid escape sequence", source[start : start + 2])
        self._at = found.end()
        braced, hexed, octal, named, literal = found.groups()
        if braced or hexed:
            return _literal(chr(int(braced or hexed, 16))), True
        if octal:
            return _literal(chr(int(octal, 8))), True
        return (f"\\{named}", True) if named else (_literal(literal), True)

    def _unicode(self, negated: bool) -> str:
        found = re.compile(r"\\[pP](?:\{(\^?)(\w+)\}|(\w))").match(self._source, self._at)
        if found is None:
            raise self._refuse(
                "invalid character class range", self._source[self._at : self._at + 2]
            )
        self._at = found.end()
        caret, long_name, short_name = found.groups()
        members = _unicode_members(long_name or short_name, negated != bool(caret))
        if members is None:
            raise self._refuse("invalid character class range", found.group())
        return members

    def _char_class(self) -> bool:
        source, start = self._source, self._at
        self._at += 1
        negated = source.startswith("^", self._at)
        self._at += negated
        members: list[str] = []
        first = True
        while first or not source.startswith("]", self._at):
            if self._at >= len(source):
                raise self._refuse("missing closing ]", source[start:])
            members.append(self._class_item())
            first = False
        self._at += 1
        self._out.append(f"[{'^' if negated else ''}{''.join(members)}]")
        return True

    def _class_item(self) -> str:
        source, start = self._source, self._at
        posix = re.compile(r"\[:(\^?)(\w+):\]").match(source, start)
        if posix:
            return self._posix(posix)
        low, single = self._class_atom()
        ranged = source.startswith("-", self._at) and not source.startswith("-]", self._at)
        if not ranged or not single or self._at + 1 >= len(source):
            return low
        self._at += 1
        high, single = self._class_atom()
        if not single:
            raise self._refuse("invalid escape sequence", source[self._at - 2 : self._at])
        if _code(high) < _code(low):
            raise self._refuse("invalid character class range", source[start : self._at])
        return f"{low}-{high}"

    def _posix(self, found: re.Match[str]) -> str:
        negated, name = found.groups()
        if name not in _POSIX:
            raise self._refuse("invalid character class range", found.group())
        self._at = found.end()
        return _complement(_POSIX[name]) if negated else _POSIX[name]

    def _class_atom(self) -> tuple[str, bool]:
        rune = self._source[self._at]
        if rune == "\\":
            return self._escaped_members()
        self._at += 1
        return _literal(rune), True


def _flag_group(flags: str) -> str:
    on, _, off = flags.partition("-")
    kept_on = "".join(flag for flag in "ims" if flag in on)
    kept_off = "".join(flag for flag in "ims" if flag in off)
    return f"(?{kept_on}{'-' + kept_off if kept_off else ''}:"


def _literal(rune: str) -> str:
    return rune if rune.isalnum() or ord(rune) > 127 else f"\\x{ord(rune):02x}"


def _code(item: str) -> int:
    return ord(re.sub(r"\\x(..)|\\(.)", _plain, item))


def _plain(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}[found[2]]


def _complement(members: str) -> str:
    inside = re.compile(f"[{members}]", re.ASCII)
    return _ranges([code for code in range(sys.maxunicode + 1) if not inside.match(chr(code))])


@functools.cache
def _unicode_members(name: str, negated: bool) -> str | None:
    if name == "Any":
        return "" if negated else "\\x00-\\U0010ffff"
    if name in _SCRIPTS:
        prefix = _SCRIPTS[name]
        codes = [
            c
            for c in range(sys.maxunicode + 1)
            if unicodedata.name(chr(c), "").startswith(prefix) != negated
        ]
        return _ranges(codes)
    if not re.fullmatch(r"[LMNPSZC][a-z]?", name):
        return None
    categories = (unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1))
    return _ranges(
        [code for code, category in enumerate(categories) if category.startswith(name) != negated]
    )


def _ranges(codes: list[int]) -> str:
    parts: list[str] = []
    start = previous = codes[0] if codes else -2
    for code in [*codes[1:], -1]:
        if code != previous + 1:
            parts.append(f"\\U{start:08x}-\\U{previous:08x}")
            start = code
        previous = code
    return "".join(parts) if codes else ""
