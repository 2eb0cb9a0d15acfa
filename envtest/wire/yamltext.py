"""YAML bodies as the API server reads them: YAML 1.1 without dates, then as if it were JSON."""

from typing import Any

import yaml

from envtest.wire.yamlevents import Builder

# Go's reader has the same grammar, but other words for what it misses.
_WORDS = {
    "expected the node content": "did not find expected node content",
    "expected ',' or ']'": "did not find expected ',' or ']'",
    "expected ',' or '}'": "did not find expected ',' or '}'",
    "expected <block end>": "did not find expected key",
}
# What is wrong with bytes that are no text.
_UTF8_FAULTS = {
    "invalid start byte": "invalid leading UTF-8 octet",
    "invalid continuation byte": "invalid trailing UTF-8 octet",
    "unexpected end of data": "incomplete UTF-8 octet sequence",
}
# What aliases may add to what stands in the text, in which no value is shorter than a byte or two.
_SPARE_NODES = 100_000


class YamlError(Exception):
    """A text that is not YAML; the message says where."""


def read_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Return the first document and the complaints about keys that stand twice.

    Args:
        data: the text; JSON is YAML, too.

    Raises:
        YamlError: the text is not YAML.
    """
    builder = Builder()
    try:
        value = builder.build(data.decode("utf-8"))
        return _Plain(len(data)).of(value), builder.duplicates
    except UnicodeDecodeError as error:
        raise YamlError(f"yaml: {_UTF8_FAULTS[error.reason]}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(_sentence(error)) from error


def write_yaml(value: Any) -> str:
    """Return a JSON value as YAML, keys in order."""
    return yaml.safe_dump(value, default_flow_style=False, allow_unicode=True)


class _Plain:
    """Makes keys texts, as JSON needs them; bounds what aliases of aliases can grow into."""

    def __init__(self, size: int) -> None:
        self._left = _SPARE_NODES + size

    def of(self, value: Any) -> Any:
        """Return a value as JSON has it."""
        self._left -= 1
        if self._left < 0:
            raise ValueError("document contains excessive aliasing")
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item) for item in value]
        return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def _sentence(error: Exception) -> str:
    """Return one line about a YAML error, with its place as Go counts it.

    Go's reader counts lines from nought, adds one for mistakes in single words, and is silent
    about the first.
    """
    if isinstance(error, yaml.reader.ReaderError):
        return "yaml: control characters are not allowed"
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    problem = _WORDS.get(problem.partition(", but found")[0], problem)
    marks = (getattr(error, name, None) for name in ("context_mark", "problem_mark"))
    line = next((mark.line for mark in marks if mark and mark.line), 0)
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"yaml: line {line}: {problem}" if line else f"yaml: {problem}"
