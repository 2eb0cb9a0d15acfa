"""What an API server warns of beside a successful answer: deprecations, webhooks' doubts.

They come as `Warning` headers, RFC 7234's `299 - "text"`, of which servers may send several.
"""

import re
from collections.abc import Iterable

_WARNING = re.compile(r'299 [^\s"]+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def warning_texts(headers: Iterable[str]) -> list[str]:
    """Return the warnings in the values of `Warning` headers, in order, each once.

    Values that are none, or of another code than 299, are left out: what they mean is for caches
    and proxies.
    """
    found = (text for value in headers for text in _WARNING.findall(value))
    return list(dict.fromkeys(_ESCAPED.sub(r"\1", text) for text in found))
