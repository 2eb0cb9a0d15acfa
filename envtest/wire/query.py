"""Query strings, parsed as Go does: a malformed parameter is left out, and the others are kept."""

import re
from collections.abc import Iterator
from urllib.parse import unquote_plus

_BROKEN = re.compile("%(?![0-9A-Fa-f]{2})")


class Query(dict[str, str]):
    """The first value of each parameter; `pairs` has all parameters in order."""

    def __init__(self, query_string: str) -> None:
        """Parse the part of a URL after its question mark."""
        self.pairs = list(_parse_pairs(query_string))
        # A dict keeps the last value of a name, so the reversed order keeps the first one.
        super().__init__(reversed(self.pairs))

    def get_all(self, name: str) -> list[str]:
        """Return every value of a parameter."""
        return [value for key, value in self.pairs if key == name]


def _parse_pairs(query_string: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of all well-formed parameters, decoded."""
    for part in query_string.split("&"):
        # Go treats a semicolon, which used to be a separator, as an error.
        if part and ";" not in part and not has_broken_escape(part):
            name, _, value = part.partition("=")
            yield unquote_plus(name), unquote_plus(value)


def has_broken_escape(query_string: str) -> bool:
    """Return whether a percent sign is not followed by two hexadecimal digits."""
    return _BROKEN.search(query_string) is not None
