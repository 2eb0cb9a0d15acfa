"""API.md: what can be written into our kinds, and what the controllers write into them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconcilers.api import crd, names
from reconcilers.api.fields import QUANTITY
from reconcilers.api.vocabulary import MARKS, WORDS
from reconcilers.api.words import ConditionWords, EventWords

Schema = Mapping[str, Any]

HEAD = f"""\
# API reference

Group `{names.GROUP}`, version `{names.VERSION}`; all kinds are namespaced. The kinds for Cluster
API at the end have another group, and are there only with that integration. This page is made of
the models that the CustomResourceDefinitions are made of: `make api-docs` writes it anew.

A field's path is as in `kubectl explain`; `[]` stands for the entries of a list. What is marked
**required** is so where its parent is given. `default` is filled in by the API server. Objects
that only Butler's other controllers read are accepted and kept, and have one line here; `kubectl
explain` lists their fields.
"""
_READ_HERE = (
    "spec.workers.replicas",
    "spec.managementPolicy.mode",
    "spec.addons.ingress.enabled",
    "spec.addons.loadBalancer.provider",
)
"""Fields that our controllers read or that users have to set, in objects of Butler's others."""
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_LIMITS: Sequence[tuple[str, str]] = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} entries"),
    ("maxItems", "at most {} entries"),
    ("pattern", "matches `{}`"),
)


def _limit(template: str, value: object) -> str:
    """Describe a limit; a limit of one has its noun in the singular."""
    singular = {"characters": "character", "entries": "entry"}
    *words, noun = template.format(value).split(" ")
    return " ".join([*words, singular.get(noun, noun) if value == 1 else noun])


def page(integrated: Sequence[crd.CrdKind]) -> str:
    """Return the whole page.

    Args:
        integrated: the kinds of integrations, which come after our own.
    """
    kinds = (*crd.KINDS, *integrated)
    others = [name for name in WORDS if name not in {kind.kind for kind in kinds}]
    sections = _Sections()
    parts = [HEAD, _contents([*(kind.kind for kind in kinds), *others])]
    parts += ["\n".join(_kind(kind, crd.definition(kind), sections)) for kind in kinds]
    parts += ["\n".join(_of_others(name, sections)) for name in others]
    parts.append("\n".join(_marks()))
    return "\n".join(parts)


class _Sections:
    """The sections of the page; each table is printed once."""

    def __init__(self) -> None:
        self._headings: dict[tuple[str, ...], str] = {}
        """The heading of the section that has a table, by the lines of the table."""

    def lines(self, heading: str, content: Iterable[str]) -> Iterator[str]:
        """Yield the lines of a section; a link to an earlier section with the same content."""
        yield f"### {heading}\n"
        content = tuple(content)
        first = self._headings.setdefault(content, heading)
        if first == heading:
            yield from content
        else:
            yield f"The same as [{first}](#{first.lower().replace(' ', '-')}).\n"


def _of_others(kind: str, sections: _Sections) -> Iterator[str]:
    """Yield the lines about a kind that others define and our controllers write into."""
    yield f"## {kind}\n"
    yield "Defined by others; this is what is said of it.\n"
    yield from _words(kind, sections)


def _contents(kinds: Iterable[str]) -> str:
    listed = (f"- [{name}](#{name.lower().replace(' ', '-')})" for name in kinds)
    marks = "- [Labels, annotations, finalizers](#labels-annotations-finalizers)"
    return "\n".join([*listed, marks, ""])


def _short_names(kind: crd.CrdKind) -> str:
    """Describe the short names of a kind that kubectl accepts, for the kind's heading."""
    if not kind.short:
        return ""
    if not kind.alias:
        return f", or `{kind.short}`"
    return f", or `{kind.alias}` (kubectl takes `{kind.short}` for {kind.shadowed_by})"


def _kind(kind: crd.CrdKind, definition: Schema, sections: _Sections) -> Iterator[str]:
    """Yield the lines of API.md about one kind."""
    spec = definition["spec"]
    [version] = spec["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    yield f"## {kind.kind}\n"
    yield f"{schema['description']}\n"
    if kind.group != names.GROUP:
        scope = "namespaced" if kind.namespaced else "of the whole cluster"
        yield f"Group `{kind.group}`, version `{kind.version}`; {scope}."
    has = "has all four" if kind.group == names.GROUP else "has it, too"
    category = kind.categories[0]
    yield f"`kubectl get {kind.plural}`{_short_names(kind)}; `kubectl get {category}` {has}."
    if kind.selectable:
        fields = ", ".join(f"`{path.removeprefix('.')}`" for path in kind.selectable)
        yield f"Field selectors: {fields}."
    columns = ", ".join(
        f"{column.name}{' (wide)' if column.wide else ''}" for column in kind.columns
    )
    yield f"Columns: {columns}.\n"
    for part in ("spec", "status"):
        table = _table(("field", "type", "what it is"), _fields(part, schema))
        yield from sections.lines(f"{kind.kind} {part}", table)
    if rules := list(_rules(schema)):
        yield from sections.lines(f"{kind.kind} rules", rules)
    yield from _words(kind.kind, sections)


def _words(kind: str, sections: _Sections) -> Iterator[str]:
    words = WORDS[kind]
    if words.conditions:
        yield from sections.lines(f"{kind} conditions", _conditions(words.conditions))
    if words.events:
        yield from sections.lines(f"{kind} events", _events(words.events))


def _fields(part: str, schema: Schema) -> Iterator[tuple[str, str, str]]:
    inner = schema["properties"][part]
    yield from _walk(inner, part, frozenset(inner.get("required", ())))


def _walk(schema: Schema, path: str, required: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        yield f"`{where}`", _type(inner), _description(inner, needed=name in required)
        if where.endswith("status.conditions"):
            continue  # the same in every kind of Kubernetes
        if inner.get(_PRESERVE):
            yield from _read_here(inner, where)
            continue
        deeper, suffix = _find_item_schema(inner)
        yield from _walk(deeper, where + suffix, frozenset(deeper.get("required", ())))


def _read_here(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the fields in an object of Butler's other controllers that ours read."""
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        if where in _READ_HERE:
            is_required = name in schema.get("required", ())
            yield f"`{where}`", _type(inner), _description(inner, needed=is_required)
        yield from _read_here(inner, where)


def _find_item_schema(schema: Schema) -> tuple[Schema, str]:
    """Return the schema whose fields are this one's, and what the path to them adds."""
    if isinstance(schema.get("items"), Mapping):
        return schema["items"], "[]"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return schema["additionalProperties"], ".*"
    return schema, ""


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"map of {_type(schema['additionalProperties'])}"
    form = schema.get("format")
    return f"{kind} ({form})" if form else str(kind)


def _description(schema: Schema, *, needed: bool) -> str:
    """Describe a field in its cell: its description, enum values, limits and default."""
    parts = ["**required**."] if needed else []
    if described := schema.get("description"):
        parts.append(str(described))
    if words := schema.get("enum"):
        parts.append(f"One of {', '.join(f'`{word}`' for word in words)}.")
    limit_values = {
        name: schema[name] for name, _ in _LIMITS if schema.get(name, QUANTITY) != QUANTITY
    }
    limits = [
        _limit(template, limit_values[name]) for name, template in _LIMITS if name in limit_values
    ]
    if limits:
        parts.append(f"Limits: {', '.join(limits)}.")
    if "default" in schema:
        value = schema["default"]
        parts.append(f"default `{str(value).lower() if isinstance(value, bool) else value}`.")
    if schema.get(_PRESERVE):
        has_fields = "properties" in schema
        parts.append("For Butler's other controllers." if has_fields else "Free-form.")
    return " ".join(" ".join(parts).split())


def _rules(schema: Schema) -> Iterator[str]:
    """Yield the table of a kind's rules; nothing if it has none."""
    rule_rows = list(_all_rules(schema, ""))
    if not rule_rows:
        return
    yield "The API server refuses what breaks one of these, whether the webhooks run or not.\n"
    yield from _table(("at", "message", "CEL"), rule_rows)


def _all_rules(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield a table row for each CEL rule of a schema and of all schemas in it.

    A row is the field that the rule is about, the message, and the rule, as Markdown.

    Args:
        path: the path from the kind to this schema, with a leading dot; empty for the kind.
    """
    for rule in schema.get("x-kubernetes-validations", ()):
        where = f"{path}{rule.get('fieldPath', '')}".lstrip(".") or "the object"
        yield f"`{where}`", rule["message"], f"`{rule['rule']}`"
    for name, inner in schema.get("properties", {}).items():
        yield from _all_rules(inner, f"{path}.{name}")
    # The items of a list add "[]" to the path, the values of a map ".*".
    item_schema, suffix = _find_item_schema(schema)
    if suffix:
        yield from _all_rules(item_schema, path + suffix)


def _conditions(conditions: Iterable[ConditionWords]) -> Iterator[str]:
    rows = []
    for condition in conditions:
        rows.append((f"**{condition.type}**", "", f"True while {condition.meaning}"))
        rows += [("", f"`{reason}`", said) for reason, said in condition.reasons.items()]
    yield from _table(("condition", "reason", "what it says"), rows)


def _events(events: Iterable[EventWords]) -> Iterator[str]:
    rows = [(event.type, f"`{event.reason}`", event.meaning) for event in events]
    yield from _table(("type", "reason", "when"), rows)


def _marks() -> Iterator[str]:
    yield "## Labels, annotations, finalizers\n"
    yield "Labels are for people and are put right where they drift; they decide nothing, but for"
    yield "the role. Only what is marked so is meant to be set by hand.\n"
    rows = [(f"`{name}`", on, said) for name, (on, said) in MARKS.items()]
    yield from _table(("name", "on", "what it is"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(content: str) -> str:
    """Escape content that would end its cell: Markdown reads a bar in code as a bar too."""
    return content.replace("|", "\\|").replace("\n", " ")
