"""Renders the chart without Helm: the few constructs of Go templates that the chart uses.

These are if, else if, else, with, range, define, include, pipelines of the functions in FUNCTIONS,
and trimming by `{{-` and `-}}`. Any other construct raises TemplateError. If there is a helm
binary, test_helm.py compares Helm's output with the output of this module.

`dot` is Go's `.`, the current value. `scope` has the variables, whose names begin with `$`.
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
    """The template is invalid, or has a construct that this renderer does not support."""


@dataclass
class Node:
    """A part of a template.

    Args:
        kind: "text", "action", or the first word of a block, such as "if".
        content: the text, or the pipeline of an action; empty for a block.
        branches: the condition and the body of each branch of a block; empty for "else".
    """

    kind: str
    content: str = ""
    branches: list[tuple[str, list["Node"]]] = field(default_factory=list)


def split_template(content: str) -> Iterator[tuple[str, str]]:
    """Yield the texts and the actions of a template, each as its kind and its content.

    `{{-` and `-}}` trim the white space of the text beside them.
    """
    position, trims_start = 0, False
    for match in ACTION.finditer(content):
        text_part = content[position : match.start()]
        text_part = text_part.lstrip() if trims_start else text_part
        yield "text", text_part.rstrip() if match[1] else text_part
        yield "action", match[2]
        position, trims_start = match.end(), bool(match[3])
    yield "text", content[position:].lstrip() if trims_start else content[position:]


@cache
def parse(template: str) -> list[Node]:
    """Return the nodes of a template; callers share them and must not change them."""
    root = Node("root", branches=[("", [])])
    stack = [root]
    for kind, content in split_template(template):
        parent_nodes = stack[-1].branches[-1][1]
        word, _, rest = content.partition(" ")
        if kind == "text":
            parent_nodes.append(Node("text", content))
        elif content.startswith("/*"):
            continue
        elif word in {"if", "with", "range", "define"}:
            block = Node(word, branches=[(rest.strip(), [])])
            parent_nodes.append(block)
            stack.append(block)
        elif word == "else":
            condition = rest.strip().removeprefix("if").strip()
            stack[-1].branches.append((condition, []))
        elif word == "end":
            if len(stack) == 1:
                raise TemplateError("end without a beginning")
            stack.pop()
        else:
            parent_nodes.append(Node("action", content))
    if len(stack) != 1:
        raise TemplateError(f"{stack[-1].kind} {stack[-1].branches[0][0]} has no end")
    return root.branches[0][1]


def is_true(value: Any) -> bool:
    """Return whether Go templates treat a value as true."""
    return bool(value)


def format_value(value: Any) -> str:
    """Return a value as Go prints it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_yaml(value: Any) -> str:
    """Return a value as YAML, like Helm's toYaml."""
    return yaml.safe_dump(value, sort_keys=True, default_flow_style=False).rstrip("\n")


def indent_lines(width: int, content: str) -> str:
    """Return a text with each line indented by a number of blanks."""
    return "\n".join(" " * width + line for line in content.split("\n"))


def find_nested(path: Iterable[str], fallback: Any, value: Any) -> Any:
    """Return the value at a path of names, or the fallback."""
    for name in path:
        if name not in value:
            return fallback
        value = value[name]
    return value


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "and": lambda *values: next((v for v in values if not is_true(v)), values[-1]),
    "or": lambda *values: next((v for v in values if is_true(v)), values[-1]),
    "not": lambda value: not is_true(value),
    "eq": lambda first, other: first == other,
    "ne": lambda first, other: first != other,
    "default": lambda fallback, value=None: value if is_true(value) else fallback,
    "printf": lambda form, *values: (
        form.replace("%v", "%s") % tuple(format_value(v) for v in values)
    ),
    "quote": lambda value: json.dumps(format_value(value), ensure_ascii=False),
    "toYaml": to_yaml,
    "nindent": lambda width, output: "\n" + indent_lines(width, output),
    "indent": indent_lines,
    "replace": lambda old, new, output: output.replace(old, new),
    "has": lambda value, values: value in (values or ()),
    "lookup": lambda *_: {},  # as of helm template, which asks no cluster
    "dict": dict,
    "dig": lambda *path: find_nested(path[:-2], path[-2], path[-1]),
    "trunc": lambda length, output: output[:length],
    "kindIs": lambda kind, value: {"slice": isinstance(value, list)}[kind],
    "join": lambda separator, values: separator.join(format_value(value) for value in values),
    "trimSuffix": lambda suffix, output: output.removesuffix(suffix),
}


class Chart:
    """A chart with values.

    Args:
        folder: the folder of the chart.
        values: values that are merged into the chart's defaults.
        release: the name of the release.
        namespace: the namespace of the release.
    """

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
        """Return the objects that all templates render."""
        documents = []
        for template in sorted((self.folder / "templates").rglob("*.yaml")):
            try:
                documents += list(read_all_yaml(self.render(template.read_text())))
            except (TemplateError, yaml.YAMLError) as error:
                raise TemplateError(f"{template.name}: {error}") from error
        return [document for document in documents if document]

    def render(self, content: str) -> str:
        """Return the text that a template renders."""
        return self.render_nodes(parse(content), self.context, {"$": self.context})

    def render_nodes(self, nodes: list[Node], dot: Any, scope: dict[str, Any]) -> str:
        """Return the text of nodes."""
        return "".join(self.render_node(node, dot, scope) for node in nodes)

    def render_node(self, node: Node, dot: Any, scope: dict[str, Any]) -> str:
        """Return the text of a node; empty for a definition."""
        renderers: dict[str, Callable[[], str]] = {
            "text": lambda: node.content,
            "action": lambda: format_value(self.evaluate(node.content, dot, scope)),
            "define": lambda: self.define(node),
            "range": lambda: self.render_range(node, dot, scope),
        }
        return renderers.get(node.kind, lambda: self.render_branch(node, dot, scope))()

    def define(self, node: Node) -> str:
        """Keep the body of a `define` under its name; return an empty text."""
        self.defined[node.branches[0][0].strip('"')] = node.branches[0][1]
        return ""

    def render_branch(self, node: Node, dot: Any, scope: dict[str, Any]) -> str:
        """Return the text of the first branch of an `if` or `with` whose condition is true."""
        for condition, body in node.branches:
            if not condition:
                return self.render_nodes(body, dot, scope)
            value = self.evaluate(condition, dot, scope)
            if is_true(value):
                return self.render_nodes(body, value if node.kind == "with" else dot, scope)
        return ""

    def render_range(self, node: Node, dot: Any, scope: dict[str, Any]) -> str:
        """Return the texts of a `range` for all items of a list or a mapping."""
        pipeline, body = node.branches[0]
        variables: list[str] = []
        if ":=" in pipeline:
            declaration, _, pipeline = pipeline.partition(":=")
            variables = [name.strip() for name in declaration.split(",")]
        value = self.evaluate(pipeline, dot, scope) or {}
        pairs = sorted(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
        return "".join(
            self.render_nodes(body, item, scope | dict(zip(variables, (key, item), strict=False)))
            for key, item in pairs
        )

    def evaluate(self, content: str, dot: Any, scope: dict[str, Any]) -> Any:
        """Return the value of a pipeline."""
        tokens = TOKEN.findall(content)
        value, rest = self.evaluate_tokens(tokens, dot, scope)
        if rest:
            raise TemplateError(f"{content!r} makes no sense at {rest[0]!r}")
        return value

    def evaluate_tokens(
        self, tokens: list[str], dot: Any, scope: dict[str, Any]
    ) -> tuple[Any, list[str]]:
        """Return the value of a pipeline up to its end or `)`, and the remaining tokens."""
        value: Any = None
        first = True
        while True:
            words: list[Any] = []
            function: str | None = None
            while tokens and tokens[0] not in {"|", ")"}:
                token, tokens = tokens[0], tokens[1:]
                if token == "(":
                    inner, tokens = self.evaluate_tokens(tokens, dot, scope)
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
                    words.append(self.read_operand(token, dot, scope))
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
        """Return the value of a template function, or the text of an `include`."""
        if function == "include":
            name, dot = arguments
            return self.render_nodes(self.defined[name], dot, {"$": self.context})
        if function not in FUNCTIONS:
            raise TemplateError(f"unsupported function {function!r}")
        return FUNCTIONS[function](*arguments)

    def read_operand(self, token: str, dot: Any, scope: dict[str, Any]) -> Any:
        """Return the value of a literal, a variable or a path of fields."""
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


def merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return values merged like Helm does.

    Mappings are merged recursively. A value of another type in `overrides` replaces the value in
    `base`. Null in `overrides` removes it.
    """
    result = dict(base)
    for name, value in overrides.items():
        if value is None:
            result.pop(name, None)
            continue
        both_are_mappings = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
        result[name] = merge(result[name], value) if both_are_mappings else value
    return result
