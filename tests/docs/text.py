"""What a Markdown document holds: blocks, commands, links, headings, words in backticks."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *("README.md", "ARCHITECTURE.md", "OPERATIONS.md", "API.md", "CONTRIBUTING.md"),
    *("CHANGELOG.md", "SECURITY.md", "RELEASING.md", "controller/README.md", "examples/README.md"),
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
)
PAGES = tuple(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))
"""The pages about the framework, one for each concept."""
GUIDES = ("README.md", "OPERATIONS.md", "ARCHITECTURE.md")
"""Those that tell people what to type."""
INDENT = 4
URLS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "urls"
]
GUIDE_URL = URLS["Documentation"]


@dataclass(frozen=True)
class Command:
    """A line that a reader may type.

    Args:
        text: the line, continued ones joined.
        block: whether it stands in a block, to be copied as it is; else it is in a sentence.
        place: document and line, for messages.
    """

    text: str
    block: bool
    place: str

    @property
    def words(self) -> list[str]:
        """The words of the shell, without a comment at the end."""
        return shlex.split(self.text, comments=True)


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def fenced(document: str, language: str) -> list[str]:
    """Return the blocks between ``` of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", read(document), re.DOTALL | re.MULTILINE)


def prose(document: str) -> str:
    """Return a document without what stands between ```."""
    return re.sub(r"^```.*?^```", "", read(document), flags=re.DOTALL | re.MULTILINE)


def section(document: str, heading: str) -> str:
    """Return the prose below a heading of the second level, up to the next one."""
    after = prose(document).partition(f"\n## {heading}\n")[2]
    assert after, f"{document} has no section {heading}"
    return after.partition("\n## ")[0]


def commands(document: str, heading: str = "") -> Iterator[Command]:
    """Yield the lines of indented blocks, and the commands in backticks; of one section if named.

    Lines are counted from the heading then.
    """
    text = section(document, heading) if heading else prose(document)
    open_line, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not open_line and not line.startswith(" " * INDENT):
            continue
        joined = f"{open_line}\n{line.strip()}" if open_line else line.strip()
        if not joined:
            continue
        begun = begun if open_line else number
        if _is_open(joined):
            open_line = joined
            continue
        open_line = ""
        yield Command(joined.replace("\\\n", ""), True, f"{document}:{begun}")
    outside = "\n".join(line for line in text.splitlines() if not line.startswith(" " * INDENT))
    for found in re.findall(r"`((?:butler-ipam|kubectl|make|python|helm) [^`]+)`", outside):
        yield Command(" ".join(found.split()), False, f"{document}, `{found}`")


def _is_open(text: str) -> bool:
    """Whether the next line belongs to this one."""
    if text.endswith("\\"):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def ours(command: Command) -> list[list[str]]:
    """Return the arguments of each call of `butler-ipam` in a line."""
    calls = []
    for part in re.split(r"[|;&()]|\$\(|>", command.text.split("  #")[0]):
        words = shlex.split(part.replace('"', "").replace("'", ""), comments=True)
        if words and Path(words[0]).name == "butler-ipam":
            calls.append(words[1:])
    return calls


def headings(document: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def links(document: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(document))


def quoted(document: str) -> list[str]:
    """Return what stands in backticks within sentences, with line breaks as blanks."""
    outside = "\n".join(
        line for line in prose(document).splitlines() if not line.startswith(" " * INDENT)
    )
    return [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", outside)]
