"""The code in docs/ runs, and the listings there are the files of examples/."""

import ast
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.docs.text import PAGES, ROOT, fenced, read

LANGUAGES = {"python", "yaml", "text"}
EXAMPLES = ROOT / "examples"
LISTINGS = {
    path.read_text(encoding="utf-8"): path
    for path in (*EXAMPLES.rglob("*.py"), *EXAMPLES.rglob("*.yaml"))
}


def snippets(page: str) -> list[str]:
    """Return the blocks of a page that are no listing of a file that another test runs."""
    return [block for block in fenced(page, "python") if block not in LISTINGS]


@pytest.mark.parametrize("page", PAGES)
async def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType(f"page_{Path(page).stem.replace('-', '_')}")
    # dataclasses look their module up, to read annotations.
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names: dict[str, Any] = module.__dict__
    for number, block in enumerate(snippets(page), 1):
        code = compile(
            block, f"{page}, block {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_is_of_a_language_that_a_test_reads(page: str) -> None:
    assert set(re.findall(r"^```(\S+)$", read(page), re.MULTILINE)) <= LANGUAGES
    for block in fenced(page, "yaml"):
        assert block in LISTINGS, "a YAML block is a listing of a file in examples/"


def test_every_example_is_listed_beside_the_same_for_kopf() -> None:
    blocks = fenced("docs/from-kopf.md", "python")
    found = [LISTINGS[block].relative_to(EXAMPLES) for block in blocks if block in LISTINGS]
    ours = sorted(path for path in found if path.parent == Path())
    theirs = sorted(path.relative_to("kopf") for path in found if path.parent == Path("kopf"))
    every = {path.relative_to(EXAMPLES) for path in EXAMPLES.glob("*.py")} - {Path("__init__.py")}
    assert ours == theirs == sorted(every)


@pytest.mark.parametrize("page", PAGES)
def test_every_listing_is_what_the_file_is(page: str) -> None:
    listed = re.findall(
        r"^<!-- (examples/\S+) -->\n\n```\w+\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE
    )
    old = [name for name, code in listed if code != (ROOT / name).read_text(encoding="utf-8")]
    assert old == [], "run `make docs`"
