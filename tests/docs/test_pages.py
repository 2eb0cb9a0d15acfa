"""The code in docs/ runs, and its listings equal the files of examples/."""

import ast
import inspect
import re
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.docs.text import PAGES, ROOT, list_fenced_blocks, read
from tests.scripts import load_script

LANGUAGES = {"python", "yaml", "text"}
SITE = load_script(".ci/site.py")
EXAMPLES = ROOT / "examples"
REQUIRED_PACKAGES = {"docs/typed-kinds.md": "lightkube"}
"""The package that the code of a page needs besides the framework."""
LISTINGS = {
    path.read_text(encoding="utf-8"): path
    for path in (*EXAMPLES.rglob("*.py"), *EXAMPLES.rglob("*.yaml"))
}


def list_runnable_blocks(page: str) -> list[str]:
    """Return the Python blocks of a page except listings of examples, which other tests run."""
    content = SITE.PAIRS.sub("", read(page))
    blocks = re.findall(r"^```python\n(.*?)^```", content, re.DOTALL | re.MULTILINE)
    return [block for block in blocks if block not in LISTINGS]


@pytest.mark.parametrize("page", PAGES)
async def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (package := REQUIRED_PACKAGES.get(page)) and find_spec(package) is None:
        pytest.skip(f"{page} needs {package}, which `make test` installs with the lock")
    module = types.ModuleType(f"page_{Path(page).stem.replace('-', '_')}")
    # dataclasses read annotations from their module in sys.modules.
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names: dict[str, Any] = module.__dict__
    for number, block in enumerate(list_runnable_blocks(page), 1):
        code = compile(
            block, f"{page}, block {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_has_a_language_that_a_test_checks(page: str) -> None:
    assert set(re.findall(r"^```(\S+)$", read(page), re.MULTILINE)) <= LANGUAGES
    for block in list_fenced_blocks(page, "yaml"):
        assert block in LISTINGS, "a YAML block is a listing of a file in examples/"


def test_every_example_is_paired_with_its_counterpart_for_kopf_part_by_part() -> None:
    pairs = SITE.PAIRS.findall(read("docs/from-kopf.md"))
    names = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "__init__.py")
    assert sorted(pairs) == [(f"examples/{name}", f"examples/kopf/{name}") for name in names]
    for ours, theirs in pairs:
        own_parts, kopf_parts = (
            SITE.parts((ROOT / name).read_text("utf-8")) for name in (ours, theirs)
        )
        assert len(kopf_parts) > 3
        assert set(kopf_parts) <= set(own_parts)


def test_a_pair_of_different_examples_is_rejected() -> None:
    page = "<!-- pairs: examples/teams.py examples/kopf/websites.py -->\n<!-- end of pairs -->"
    with pytest.raises(ValueError, match=r"its parts are not those of examples/teams\.py"):
        SITE.with_pairs(page)


@pytest.mark.parametrize("page", PAGES)
def test_every_listing_equals_its_file(page: str) -> None:
    content = read(page)
    assert SITE.with_pairs(SITE.with_listings(content)) == content, "run `make docs`"
