"""All pools as one HTML page.

The page is one file and needs no other: its policy lets nothing run but the script that is in it,
by its hash. The data goes into it as JSON in an element of its own. Names come from users who
may create objects, so they reach the page as data only: `<` is escaped, control characters are
shown as escapes, and the script sets texts, never markup. A server gives the same page without
data, and the page asks it for messages.
"""

import base64
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from reconcilers.addressmap.pagemessages import build_whole_message, encode

SCRIPTS = (
    "basics.js",
    "store.js",
    "filters.js",
    "looks.js",
    "rows.js",
    "tables.js",
    "maps.js",
    "input.js",
    "export.js",
    "main.js",
    "live.js",
)
"""In the order in which they run, as one script."""

_WEB = Path(__file__).parent / "web"


def _read_web_file(name: str) -> str:
    """Return a file of the folder `web`."""
    return (_WEB / name).read_text(encoding="utf-8")


def _hash_source(source: str) -> str:
    """Return the hash of an inline script or style as a source of a Content-Security-Policy."""
    digest = base64.b64encode(sha256(source.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@cache
def build_template() -> tuple[str, str]:
    """Return the page without its data, and its Content-Security-Policy."""
    script = '"use strict";\n' + "".join(_read_web_file(name) for name in SCRIPTS)
    style = _read_web_file("page.css")
    policy = (
        f"default-src 'none'; script-src {_hash_source(script)}; style-src {_hash_source(style)};"
        " connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
    page_html = _read_web_file("page.html").replace("/*POLICY*/", policy)
    return page_html.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script), policy


def build_page(state: Mapping[str, Any] | None) -> str:
    """Return the HTML page.

    Args:
        state: the result of `build_page_state`; None for the page of a server, which requests its
            data from the server.
    """
    # In JSON, \u003c is "<". Unescaped, a name could end the element of the data.
    data = "null" if state is None else encode(build_whole_message(state)).replace("<", "\\u003c")
    page_without_data, _ = build_template()
    return page_without_data.replace("/*DATA*/null", data)
