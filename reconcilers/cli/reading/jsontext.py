"""JSON documents as plain values: one, or several one after another."""

import json
from typing import Any

from reconcilers.cli.reading.yamltext import MAX_DEPTH, Malformed
from reconcilers.cli.reading.yamltext import parse as parse_yaml

_WITH_LINES = 2_000_000
"""Up to how many characters a text is read a second time, as YAML, to learn its lines."""


def parse(text: str) -> list[tuple[int, Any]]:
    """Return the documents of a text, each with its first line.

    JSON is YAML, almost: where reading it as YAML gives the same values, these know their lines.

    Raises:
        Malformed: it is no JSON, or has a key twice.
    """
    documents = _strictly(text)
    if len(documents) != 1 or len(text) > _WITH_LINES:
        return documents
    try:
        lined = parse_yaml(text)
    except Malformed:
        return documents
    return lined if [value for _, value in lined] == [documents[0][1]] else documents


def _strictly(text: str) -> list[tuple[int, Any]]:
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
    documents = []
    at = _skip(text, 0)
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise Malformed(error.lineno, f"this is no valid JSON: {error.msg}") from error
        except _Wrong as error:
            raise Malformed(_line_as_yaml(text, line), str(error)) from error
        except RecursionError as error:
            raise Malformed(line, f"this is nested more than {MAX_DEPTH} levels deep") from error
        documents.append((line, value))
        at = _skip(text, end)
    return documents


class _Wrong(ValueError):
    """Valid JSON that means nothing to Kubernetes."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _Wrong(f"the key {key!r} is in one object twice")
        result[key] = value
    return result


def _constant(word: str) -> Any:
    raise _Wrong(f"{word} is no number that JSON can carry")


def _line_as_yaml(text: str, otherwise: int) -> int:
    try:
        parse_yaml(text)
    except Malformed as error:
        return error.line
    return otherwise


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
