"""Renders the chart without Helm: the few constructs of Go templates that the chart uses.

if, else if, else, with, range, define, include; pipelines of the functions in FUNCTIONS; trimming
by `{{-` and `-}}`. Whatever else a template may hold is an error here, so the chart stays within
what this can check. Where a helm binary is found, a test holds the two against each other.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.yamls import read_all_yaml, read_yaml

ACTION = re.compile(r"\{\{(-?)\s*(/\*.*?\*/|.*?)\s*(-?)\}\}", re.DOTALL)
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\(|\)|\||:=|,|[^\s()|,]+')


class TemplateError(Exception):
    """The template holds something this renderer does not know, or that makes no sense."""


@dataclass
class Node:
    """A part of a template: text, an action, or a block with its branches."""

    kind: str
    content: str = ""
    branches: list[tuple[str, list["Node"]]] = field(default_factory=list)


def pieces(content: str) -> Iterator[tuple[str, str]]:
    """Yield text and actions, trimmed as their dashes ask."""
    at, trim = 0, False
    for match in ACTION.finditer(content):
        plain = content[at : match.start()]
        plain = plain.lstrip() if trim else plain
        yield "text", plain.rstrip() if match[1] else plain
        yield "action", match[2]
        at, trim = match.end(), bool(match[3])
    yield "text", content[at:].lstrip() if trim else content[at:]


@cache
def parse(template: str) -> list[Node]:
    """Return the nodes of a template; callers share them and must not change them."""
    root = Node("root", branches=[("", [])])
    stack = [root]
    for kind, content in pieces(template):
        into = stack[-1].branches[-1][1]
        word, _, rest = content.partition(" ")
        if kind == "text":
            into.append(Node("text", content))
        elif content.startswith("/*"):
            continue
        elif word in {"if", "with", "range", "define"}:
            block = Node(word, branches=[(rest.strip(), [])])
            into.append(block)
            stack.append(block)
        elif word == "else":
            condition = rest.strip().removeprefix("if").strip()
            stack[-1].branches.append((condition, []))
        elif word == "end":
            if len(stack) == 1:
                raise TemplateError("end without a beginning")
            stack.pop()
        else:
            into.append(Node("action", content))
    if len(stack) != 1:
        raise TemplateError(f"{stack[-1].kind} {stack[-1].branches[0][0]} has no end")
    return root.branches[0][1]


def truth(value: Any) -> bool:
    """Return whether Go templates take a value for true."""
    return bool(value)


def text_of(value: Any) -> str:
    """Return a value as Go prints it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=True, default_flow_style=False).rstrip("\n")


def indent(width: int, content: str) -> str:
    return "\n".join(" " * width + line for line in content.split("\n"))


def find_nested(path: Iterable[str], fallback: Any, value: Any) -> Any:
    """Return the value at a path of names, or the fallback."""
    for name in path:
        if name not in value:
            return fallback
        value = value[name]
    return value


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "and": lambda *values: next((v for v in values if not truth(v)), values[-1]),
    "or": lambda *values: next((v for v in values if truth(v)), values[-1]),
    "not": lambda value: not truth(value),
    "eq": lambda first, other: first == other,
    "ne": lambda first, other: first != other,
    "default": lambda fallback, value=None: value if truth(value) else fallback,
    "printf": lambda form, *values: form.replace("%v", "%s") % tuple(text_of(v) for v in values),
    "quote": lambda value: json.dumps(text_of(value), ensure_ascii=False),
    "toYaml": to_yaml,
    "nindent": lambda width, output: "\n" + indent(width, output),
    "indent": indent,
    "replace": lambda old, new, output: output.replace(old, new),
    "has": lambda value, values: value in (values or ()),
    "lookup": lambda *_: {},  # as of helm template, which asks no cluster
    "dict": dict,
    "dig": lambda *path: find_nested(path[:-2], path[-2], path[-1]),
    "trunc": lambda length, output: output[:length],
    "kindIs": lambda kind, value: {"slice": isinstance(value, list)}[kind],
    "join": lambda separator, values: separator.join(text_of(value) for value in values),
    "trimSuffix": lambda suffix, output: output.removesuffix(suffix),
}


class Chart:
    """A chart that is rendered with values."""

    def __init__(
        self, folder: Path, values: Mapping[str, Any], release: str, namespace: str
    ) -> None:
        meta = read_yaml((folder / "Chart.yaml").read_text())
        defaults = read_yaml((folder / "values.yaml").read_text())
        self.folder = folder
        self.defined: dict[str, list[Node]] = {}
        self.context: dict[str, Any] = {
            "Values": merge(defaults, values),
            "Release": {"Name": release, "Namespace": namespace, "Service": "Helm"},
            "Chart": {
                "Name": meta["name"],
                "Version": meta["version"],
                "AppVersion": str(meta["appVersion"]),
            },
        }
        for helper in sorted((folder / "templates").glob("*.tpl")):
            self.render(helper.read_text())

    def documents(self) -> list[dict[str, Any]]:
        """Return the objects of all templates."""
        documents = []
        for template in sorted((self.folder / "templates").rglob("*.yaml")):
            try:
                documents += list(read_all_yaml(self.render(template.read_text())))
            except (TemplateError, yaml.YAMLError) as error:
                raise TemplateError(f"{template.name}: {error}") from error
        return [document for document in documents if document]

    def render(self, content: str) -> str:
        """Return a template's text."""
        return self.nodes(parse(content), self.context, {"$": self.context})

    def nodes(self, nodes: list[Node], dot: Any, scope: dict[str, Any]) -> str:
        return "".join(self.node(node, dot, scope) for node in nodes)

    def node(self, node: Node, dot: Any, scope: dict[str, Any]) -> str:
        kinds: dict[str, Callable[[], str]] = {
            "text": lambda: node.content,
            "action": lambda: text_of(self.value(node.content, dot, scope)),
            "define": lambda: self.define(node),
            "range": lambda: self.render_range(node, dot, scope),
        }
        return kinds.get(node.kind, lambda: self.render_branch(node, dot, scope))()

    def define(self, node: Node) -> str:
        self.defined[node.branches[0][0].strip('"')] = node.branches[0][1]
        return ""

    def render_branch(self, node: Node, dot: Any, scope: dict[str, Any]) -> str:
        """Render the first branch of an if or with whose condition holds."""
        for condition, body in node.branches:
            if not condition:
                return self.nodes(body, dot, scope)
            value = self.value(condition, dot, scope)
            if truth(value):
                return self.nodes(body, value if node.kind == "with" else dot, scope)
        return ""

    def render_range(self, node: Node, dot: Any, scope: dict[str, Any]) -> str:
        head, body = node.branches[0]
        names: list[str] = []
        if ":=" in head:
            remaining, _, head = head.partition(":=")
            names = [name.strip() for name in remaining.split(",")]
        value = self.value(head, dot, scope) or {}
        pairs = sorted(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
        return "".join(
            self.nodes(body, item, scope | dict(zip(names, (key, item), strict=False)))
            for key, item in pairs
        )

    def value(self, content: str, dot: Any, scope: dict[str, Any]) -> Any:
        """Return the value of a pipeline."""
        tokens = TOKEN.findall(content)
        value, rest = self.pipeline(tokens, dot, scope)
        if rest:
            raise TemplateError(f"{content!r} makes no sense at {rest[0]!r}")
        return value

    def pipeline(
        self, tokens: list[str], dot: Any, scope: dict[str, Any]
    ) -> tuple[Any, list[str]]:
        value: Any = None
        first = True
        while True:
            words: list[Any] = []
            function: str | None = None
            while tokens and tokens[0] not in {"|", ")"}:
                token, tokens = tokens[0], tokens[1:]
                if token == "(":
                    inner, tokens = self.pipeline(tokens, dot, scope)
                    if not tokens or tokens[0] != ")":
                        raise TemplateError("a bracket is not closed")
                    tokens = tokens[1:]
                    words.append(inner)
                elif token in {".Files.Get", "$.Files.Get"}:
                    words.append((self.folder / tokens[0].strip('"')).read_text())
                    tokens = tokens[1:]
                elif function is None and not words and re.fullmatch(r"[a-zA-Z]+", token):
                    function = token
                else:
                    words.append(self.operand(token, dot, scope))
            piped = [] if first else [value]
            if function is not None and function not in {"true", "false"}:
                value = self.call(function, [*words, *piped])
            elif function is not None:
                value = function == "true"
            elif len(words) == 1 and first:
                value = words[0]
            else:
                raise TemplateError(f"cannot make sense of {words}")
            first = False
            if not tokens or tokens[0] == ")":
                return value, tokens
            tokens = tokens[1:]

    def call(self, function: str, arguments: list[Any]) -> Any:
        if function == "include":
            name, dot = arguments
            return self.nodes(self.defined[name], dot, {"$": self.context})
        if function not in FUNCTIONS:
            raise TemplateError(f"this renderer knows no function {function!r}")
        return FUNCTIONS[function](*arguments)

    def operand(self, token: str, dot: Any, scope: dict[str, Any]) -> Any:
        if token.startswith('"'):
            return token[1:-1].replace('\\"', '"')
        if re.fullmatch(r"-?\d+", token):
            return int(token)
        if token == ".":
            return dot
        if token in scope:
            return scope[token]
        root, path = (scope["$"], token[1:]) if token.startswith("$.") else (dot, token)
        if token.startswith("$") and not token.startswith("$."):
            name, _, path = token.partition(".")
            root, path = scope[name], f".{path}"
        if not path.startswith("."):
            raise TemplateError(f"cannot make sense of {token!r}")
        for part in path[1:].split("."):
            if not isinstance(root, Mapping):
                raise TemplateError(f"{token}: nothing has a field {part!r}")
            root = root.get(part)
        return root


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as Helm merges them: mappings deeply, all else replaced, null taken out."""
    result = dict(base)
    for name, value in over.items():
        if value is None:
            result.pop(name, None)
            continue
        both = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
        result[name] = merge(result[name], value) if both else value
    return result
