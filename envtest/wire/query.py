"""Query strings as Go reads them: a pair that cannot be read is left out, the others count."""

import re
from collections.abc import Iterator
from urllib.parse import unquote_plus

_BROKEN = re.compile("%(?![0-9A-Fa-f]{2})")


class Query(dict[str, str]):
    """The first value of each parameter; `everything` has them all."""

    def __init__(self, query_string: str) -> None:
        """Read what stands behind the question mark of a URL."""
        self.everything = list(_pairs(query_string))
        super().__init__(reversed(self.everything))

    def all_of(self, name: str) -> list[str]:
        """Return every value of a parameter."""
        return [value for key, value in self.everything if key == name]


def _pairs(query_string: str) -> Iterator[tuple[str, str]]:
    for part in query_string.split("&"):
        # A semicolon once parted pairs, too; Go now takes it for a mistake.
        if part and ";" not in part and not is_broken(part):
            name, _, value = part.partition("=")
            yield unquote_plus(name), unquote_plus(value)


def is_broken(query_string: str) -> bool:
    """Return whether a percent sign is not followed by two hexadecimal digits."""
    return _BROKEN.search(query_string) is not None
