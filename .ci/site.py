"""Makes the documentation site in a folder, or the listings in docs/: site.py FOLDER | --listings.

The site is docs/ with its folders operating/ and design/, and the documents at the top of the
repository. These stay where they are, because people and hosting services look for them there,
while the generator wants everything in one folder. So all of it is copied to FOLDER/docs first,
README.md as index.md; the site is in FOLDER/site. Links between the documents are kept. A link to
a file that is no page (a manifest, a module) becomes plain text. The reference of `controller` is
made from its docstrings.

With --listings the listings of examples/ in docs/ are written anew, from the files. Two programs
that do the same stand beside each other part by part: a line `# -- TITLE` begins a part in both.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from os.path import relpath
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parent.parent
TOP = {
    "README.md": "index.md",
    "OPERATIONS.md": "operations.md",
    "ARCHITECTURE.md": "architecture.md",
    "API.md": "api.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "controller/README.md": "controller.md",
}
REFERENCE = "reference.md"
EXPORTING = (
    "controller",
    "controller.markers",
    "controller.scaffold",
    "controller.webhooks",
    "controller.testing",
)
"""The packages and modules whose names users import."""
"""The page of what `controller` exports."""
LISTING = re.compile(r"<!-- (examples/\S+) -->\n\n```(\w+)\n.*?^```", re.DOTALL | re.MULTILINE)
PAIRS = re.compile(r"<!-- pairs: (\S+) (\S+) -->\n.*?<!-- end of pairs -->", re.DOTALL)
PART = re.compile(r"^ *# -- (.+)\n", re.MULTILINE)
FIRST_PART = "What it needs"
FOLDERS = ("", "operating", "design")
"""The folders below docs/ whose documents are pages."""
ASSETS = ("site.css", "demo.cast", "images")
"""What of docs/ is copied as it is."""
PLAYER = ROOT / "docs" / "player" / "node_modules" / "asciinema-player" / "dist" / "bundle"
PLAYER_FILES = ("asciinema-player.min.js", "asciinema-player.css")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def pages() -> dict[Path, str]:
    """Return the pages: from the file in the repository to the name in the site."""
    docs = ROOT / "docs"
    own = {
        path: path.relative_to(docs).as_posix()
        for folder in FOLDERS
        for path in sorted((docs / folder).glob("*.md"))
    }
    return {ROOT / name: target for name, target in TOP.items()} | own


def with_listings(page: str) -> str:
    """Return a page with the files of examples/ in the listings that name them."""

    def listing(match: re.Match[str]) -> str:
        code = (ROOT / match[1]).read_text(encoding="utf-8")
        return f"<!-- {match[1]} -->\n\n```{match[2]}\n{code}```"

    return LISTING.sub(listing, page)


def parts(code: str) -> dict[str, str]:
    """Return the parts of a program by their titles, in order, each as far left as it goes."""
    first, *others = PART.split(code)
    sections = {FIRST_PART: first, **dict(zip(others[::2], others[1::2], strict=True))}
    return {title: dedent(part).strip("\n") for title, part in sections.items()}


def with_pairs(page: str) -> str:
    """Return a page with the parts of two programs beside each other where it names them.

    Raises:
        ValueError: the second has a part that the first does not have, or in another order.
    """

    def pairs(match: re.Match[str]) -> str:
        first, second = (
            parts((ROOT / name).read_text(encoding="utf-8")) for name in match.groups()
        )
        if [title for title in first if title in second] != list(second):
            raise ValueError(f"{match[2]}: its parts are not those of {match[1]}, in that order")
        rows = [_pair(title, code, second.get(title, "")) for title, code in first.items()]
        return "\n".join(
            [f"<!-- pairs: {match[1]} {match[2]} -->", "", *rows, "<!-- end of pairs -->"]
        )

    return PAIRS.sub(pairs, page)


def _pair(title: str, first: str, second: str) -> str:
    cells = [
        f"```python\n{code}\n```" if code else "Nothing to write." for code in (first, second)
    ]
    return "\n\n".join([f"**{title}**", '<div class="pair" markdown>', *cells, "</div>\n"])


def reference() -> str:
    """Return the page that has mkdocstrings write what the framework exports, by module."""
    lines = ["# Reference of the framework", ""]
    for package in EXPORTING:
        lines += [f"# From `{package}`", ""]
        for module, names in exports(package):
            lines += [f"## {module}", ""]
            lines += [line for name in names for line in (f"::: {module}.{name}", "")]
    return "\n".join(lines)


def exports(package: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the modules whose names a package exports, with these; a module exports its own."""
    path = ROOT.joinpath(*package.split("."))
    if not path.is_dir():
        tree = ast.parse(path.with_suffix(".py").read_text(encoding="utf-8"))
        own = (ast.ClassDef, ast.FunctionDef)
        yield package, [node.name for node in tree.body if isinstance(node, own)]
        return
    for node in ast.walk(ast.parse((path / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("controller."):
            assert node.module is not None
            yield node.module, [alias.name for alias in node.names]


def with_links(page: str, source: Path, known: dict[Path, str]) -> str:
    """Return a page with links to the site's pages, and without links to other files."""
    here = Path(known[source]).parent

    def link(match: re.Match[str]) -> str:
        words, path, anchor = match[1], match[2], match[3] or ""
        if not path or "://" in path:
            return match[0]
        target = (source.parent / path).resolve()
        if target.is_relative_to(ROOT / "docs") and target.suffix == ".png":
            return f"[{words}]({relpath(target.relative_to(ROOT / 'docs'), here)})"
        if target.is_dir():
            target /= "README.md"
        return f"[{words}]({relpath(known[target], here)}{anchor})" if target in known else words

    return LINK.sub(link, page)


def write_listings() -> None:
    """Write the listings in docs/ anew."""
    for path in (ROOT / "docs").glob("*.md"):
        page = path.read_text(encoding="utf-8")
        path.write_text(with_pairs(with_listings(page)), encoding="utf-8")


def copy(folder: Path) -> None:
    """Write the settings and the sources of the site."""
    target = folder / "docs"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    known = pages()
    for path, name in known.items():
        page = with_links(path.read_text(encoding="utf-8"), path, known)
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_text(page, encoding="utf-8")
    (target / REFERENCE).write_text(reference(), encoding="utf-8")
    for name in ASSETS:
        asset = ROOT / "docs" / name
        if asset.is_dir():
            shutil.copytree(asset, target / name)
        else:
            shutil.copy(asset, target)
    if PLAYER.is_dir():  # `make player`; without it the tour links its recording
        (target / "player").mkdir()
        for name in PLAYER_FILES:
            shutil.copy(PLAYER / name, target / "player")
    shutil.copy(ROOT / "docs" / "mkdocs.yml", folder)


if __name__ == "__main__":
    [argument] = sys.argv[1:]
    if argument == "--listings":
        write_listings()
    else:
        folder = Path(argument).resolve()
        copy(folder)
        zensical = str(Path(sys.executable).with_name("zensical"))
        command = [zensical, "build", "--strict", "--clean"]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}  # where mkdocstrings finds controller
        sys.exit(subprocess.run(command, cwd=folder, env=environment, check=False).returncode)
