"""Blocks, commands, links, headings, sentences and quoted words of a Markdown document."""

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
OPERATING = tuple(
    f"docs/operating/{path.name}" for path in sorted((ROOT / "docs/operating").glob("*.md"))
)
"""The pages of the operator's guide."""
DESIGN = tuple(f"docs/design/{path.name}" for path in sorted((ROOT / "docs/design").glob("*.md")))
"""The design notes."""
DOCUMENTS = (
    *("README.md", "ARCHITECTURE.md", "OPERATIONS.md", "API.md", "CONTRIBUTING.md"),
    *("CHANGELOG.md", "SECURITY.md", "RELEASING.md", "controller/README.md", "examples/README.md"),
    "manifests/chart/README.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
    *OPERATING,
    *DESIGN,
)
PAGES = tuple(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))
"""The pages about the framework, one for each concept."""
GUIDES = ("README.md", "OPERATIONS.md", *OPERATING, "ARCHITECTURE.md")
"""The documents with commands that readers type."""
INDENT = 4
URLS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "urls"
]
RUNBOOKS_URL = f"{URLS['Repository']}/blob/main/docs/operating/runbooks.md"
_FENCE = re.compile(r"^ *```(\S*)$")
_ITEM = re.compile(r" *(?:[-*]|\d+\.) +(?=\S)")
_HTML_BLOCK = re.compile(
    r"^ {0,3}(?:<!--.*?-->|<(script|style)\b.*?</\1>|</?(?:div|p|link)\b.*?(?=\n\s*\n|\Z))",
    re.DOTALL | re.MULTILINE,
)
_TAG = re.compile(r"</?[a-z][^>\n]*>")
_SENTENCE_END = re.compile(r"(?:(?<=[.!?:])|(?<=[.!?:][)\"'*])|(?<=[.!?:]\*\*))\s+")
_LINKS = re.compile(r"(?:- )?\[[^\]]*\](?:, \[[^\]]*\])+")
"""A list of links with nothing between them but commas."""


@dataclass(frozen=True)
class Command:
    """A line that a reader may type.

    Args:
        line_text: the line, continued ones joined.
        block: whether it stands in a block, to be copied as it is; else it is in a sentence.
        document: the document that has it.
        line: its line, counted from the heading if a section was asked for.
    """

    line_text: str
    block: bool
    document: str
    line: int

    @property
    def words(self) -> list[str]:
        """The words of the shell, without a comment at the end."""
        return shlex.split(self.line_text, comments=True)

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.document}:{self.line}"


def read(document: str) -> str:
    """Return the text of a document."""
    return (ROOT / document).read_text(encoding="utf-8")


def list_fenced_blocks(document: str, language: str) -> list[str]:
    """Return the blocks between ``` of one language."""
    blocks = re.findall(
        rf"^( *)```{language}\n(.*?)^\1```$", read(document), re.DOTALL | re.MULTILINE
    )
    return [dedent(block) for _, block in blocks]


def prose(document: str) -> str:
    """Return a document in which the lines of fenced blocks are empty."""
    return _without_blocks(read(document))


def _without_blocks(content: str) -> str:
    return "\n".join("" if in_block else line for line, in_block, _ in _mark_lines(content))


def _mark_lines(content: str) -> Iterator[tuple[str, bool, str]]:
    """Yield each line, whether a block between ``` has it, and the language of that block."""
    language: str | None = None
    for line in content.splitlines():
        fence = _FENCE.match(line)
        if fence is None:
            yield line, language is not None, language or ""
            continue
        yield line, True, ""
        language = fence[1] if language is None else None


def section(document: str, heading: str) -> str:
    """Return the text below a heading of the second level, up to the next one."""
    after = read(document).partition(f"\n## {heading}\n")[2]
    assert after, f"{document} has no section {heading}"
    return after.partition("\n## ")[0]


def commands(document: str, heading: str = "") -> Iterator[Command]:
    """Yield the lines that can be copied, and the commands in backticks; of one section if named.

    The pages of the operator's guide have their lines to copy in blocks of the language `shell`,
    the other documents in indented blocks.
    """
    content = section(document, heading) if heading else read(document)
    fences = document in OPERATING
    open_line, begun = "", 0
    for number, (line, in_block, language) in enumerate(_mark_lines(content), 1):
        copied = language == "shell" if fences else line.startswith(" " * INDENT) and not in_block
        if not open_line and not copied:
            continue
        joined = f"{open_line}\n{line.strip()}" if open_line else line.strip()
        if not joined:
            continue
        begun = begun if open_line else number
        if _is_open(joined):
            open_line = joined
            continue
        open_line = ""
        yield Command(joined.replace("\\\n", ""), True, document=document, line=begun)
    sentences = _sentences(content, fences=fences)
    for match in re.finditer(r"`((?:butler-ipam|kubectl|make|python|helm) [^`]+)`", sentences):
        line_number = sentences[: match.start()].count("\n") + 1
        yield Command(" ".join(match[1].split()), False, document=document, line=line_number)


def _sentences(content: str, *, fences: bool) -> str:
    """Return a text in which the lines to copy are empty."""
    return "\n".join(
        "" if not fences and line.startswith(" " * INDENT) else line
        for line in _without_blocks(content).splitlines()
    )


def _is_open(content: str) -> bool:
    """Return whether a shell line continues on the next line."""
    if content.endswith("\\"):
        return True
    try:
        shlex.split(content, comments=True)
    except ValueError:
        return True
    return False


def list_butler_ipam_calls(command: Command) -> list[list[str]]:
    """Return the arguments of each call of `butler-ipam` in a line."""
    calls = []
    for part in re.split(r"[|;&()]|\$\(|>", command.line_text.split("  #")[0]):
        words = shlex.split(part.replace('"', "").replace("'", ""), comments=True)
        if words and Path(words[0]).name == "butler-ipam":
            calls.append(words[1:])
    return calls


def headings(document: str) -> list[str]:
    """Return the headings of a document, without their `#`."""
    return re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def links(document: str) -> list[str]:
    """Return the targets of a document's links; text in backticks has no links."""
    patterns = re.compile(r"`[^`\n]*\]\([^`\n]*`")
    return re.findall(r"\]\(([^)\s]+)\)", patterns.sub("code", prose(document)))


def list_quoted(document: str) -> list[str]:
    """Return the words in backticks within sentences, with line breaks as blanks."""
    outside = _sentences(read(document), fences=document in OPERATING)
    return [" ".join(match.split()) for match in re.findall(r"`([^`]+)`", outside)]


def sentences(document: str) -> list[str]:
    """Return the sentences of a document, as `split_sentences` defines them."""
    return split_sentences(read(document))


def split_sentences(content: str) -> list[str]:
    """Return the sentences of the paragraphs, list items and cells of tables.

    Headings, blocks of code, blocks of HTML and bare lists of links have none. A colon ends a
    sentence. Code in backticks counts as one word.
    """
    prose_only = "\n".join(_drop_indented_code(_without_blocks(content).splitlines()))
    plain_text = re.sub(r"`[^`]*`", "code", _HTML_BLOCK.sub("\n", prose_only))
    plain_text = re.sub(r"\]\([^)]*\)", "]", _TAG.sub("", plain_text))
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?= *[|#])", plain_text)
    units = [
        cell
        for part in parts
        for cell in (part.split("|") if part.lstrip().startswith("|") else [part])
    ]
    return [
        sentence
        for unit in units
        if not unit.lstrip().startswith("#")
        for sentence in _SENTENCE_END.split(" ".join(unit.split()))
        if sentence and not _LINKS.fullmatch(sentence)
    ]


def count_words(sentence: str) -> int:
    """Return the number of words; words joined by a hyphen, slash or apostrophe are one."""
    return len(re.findall(r"\w[\w'/-]*", sentence))


def _drop_indented_code(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines; the lines of indented code blocks are empty.

    Such a block follows an empty line, four columns to the right of the text around it. In an
    item of a list that is the text of the item.
    """
    margin = 0
    is_after_break, in_code = True, False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            is_after_break = True
            yield line
            continue
        if is_after_break and indent == 0:
            margin = 0
        in_code = (is_after_break or in_code) and indent >= margin + INDENT
        is_after_break = False
        if not in_code and (item := _ITEM.match(line)):
            margin = item.end()
        yield "" if in_code else line
