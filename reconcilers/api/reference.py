"""API.md: what can be written into our kinds, and what the controllers write into them.

A schema here is the OpenAPI schema in a CustomResourceDefinition. Functions that begin with
`render` return or yield lines of Markdown.
"""

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


def _describe_limit(template: str, value: object) -> str:
    """Describe a limit; a limit of one has its noun in the singular.

    Args:
        template: a text of _LIMITS, such as "at most {} entries".
    """
    singular = {"characters": "character", "entries": "entry"}
    *words, noun = template.format(value).split(" ")
    return " ".join([*words, singular.get(noun, noun) if value == 1 else noun])


def render_reference(integrated: Sequence[crd.CrdKind]) -> str:
    """Return the whole page API.md.

    Args:
        integrated: the kinds of integrations, which come after our own.
    """
    kinds = (*crd.KINDS, *integrated)
    # Kinds without a definition of ours: our controllers write conditions and events on them.
    others = [name for name in WORDS if name not in {kind.kind for kind in kinds}]
    sections = _Sections()
    parts = [HEAD, _render_contents([*(kind.kind for kind in kinds), *others])]
    parts += ["\n".join(_render_kind(kind, crd.build_crd(kind), sections)) for kind in kinds]
    parts += ["\n".join(_render_foreign_kind(name, sections)) for name in others]
    parts.append("\n".join(_render_marks()))
    return "\n".join(parts)


class _Sections:
    """The sections of the page; each table is printed once."""

    def __init__(self) -> None:
        self._headings: dict[tuple[str, ...], str] = {}
        """The heading of the section that has a table, by the lines of the table."""

    def render(self, heading: str, content: Iterable[str]) -> Iterator[str]:
        """Yield the lines of a section: its heading and its content.

        If an earlier section has the same content, a link to that section replaces it.
        """
        yield f"### {heading}\n"
        content = tuple(content)
        first = self._headings.setdefault(content, heading)
        if first == heading:
            yield from content
        else:
            yield f"The same as [{first}](#{first.lower().replace(' ', '-')}).\n"


def _render_foreign_kind(kind: str, sections: _Sections) -> Iterator[str]:
    """Yield the lines about a kind that others define and our controllers write into."""
    yield f"## {kind}\n"
    yield "Defined by others; this is what is said of it.\n"
    yield from _render_words(kind, sections)


def _render_contents(kinds: Iterable[str]) -> str:
    """Return the table of contents: a link to the section of each kind, and to that of marks."""
    listed = (f"- [{name}](#{name.lower().replace(' ', '-')})" for name in kinds)
    marks = "- [Labels, annotations, finalizers](#labels-annotations-finalizers)"
    return "\n".join([*listed, marks, ""])


def _describe_short_names(kind: crd.CrdKind) -> str:
    """Describe the short names of a kind that kubectl accepts, for the kind's heading."""
    if not kind.short:
        return ""
    if not kind.alias:
        return f", or `{kind.short}`"
    return f", or `{kind.alias}` (kubectl takes `{kind.short}` for {kind.shadowed_by})"


def _render_kind(kind: crd.CrdKind, definition: Schema, sections: _Sections) -> Iterator[str]:
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
    short_names = _describe_short_names(kind)
    yield f"`kubectl get {kind.plural}`{short_names}; `kubectl get {category}` {has}."
    if kind.selectable:
        fields = ", ".join(f"`{path.removeprefix('.')}`" for path in kind.selectable)
        yield f"Field selectors: {fields}."
    columns = ", ".join(
        f"{column.name}{' (wide)' if column.wide else ''}" for column in kind.columns
    )
    yield f"Columns: {columns}.\n"
    for part in ("spec", "status"):
        table = _render_table(("field", "type", "what it is"), _list_part_fields(part, schema))
        yield from sections.render(f"{kind.kind} {part}", table)
    if rules := list(_render_rules(schema)):
        yield from sections.render(f"{kind.kind} rules", rules)
    yield from _render_words(kind.kind, sections)


def _render_words(kind: str, sections: _Sections) -> Iterator[str]:
    """Yield the sections about the conditions and the events of a kind."""
    words = WORDS[kind]
    if words.conditions:
        yield from sections.render(f"{kind} conditions", _render_conditions(words.conditions))
    if words.events:
        yield from sections.render(f"{kind} events", _render_events(words.events))


def _list_part_fields(part: str, schema: Schema) -> Iterator[tuple[str, str, str]]:
    """Yield a table row for each field of `spec` or `status`: path, type and description."""
    inner = schema["properties"][part]
    yield from _list_fields(inner, part, frozenset(inner.get("required", ())))


def _list_fields(
    schema: Schema, path: str, required: frozenset[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield a table row for each field of a schema, and for the fields inside it.

    Args:
        path: the path of the schema, such as `spec.reserved[]`.
        required: the names of the fields that are required.
    """
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        yield f"`{where}`", _describe_type(inner), _describe_field(inner, needed=name in required)
        if where.endswith("status.conditions"):
            continue  # their fields are the same in every kind of Kubernetes
        # An object for Butler's other controllers has one row, except for fields that ours read.
        if inner.get(_PRESERVE):
            yield from _list_fields_read_here(inner, where)
            continue
        deeper, suffix = _find_item_schema(inner)
        yield from _list_fields(deeper, where + suffix, frozenset(deeper.get("required", ())))


def _list_fields_read_here(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the fields in an object of Butler's other controllers that ours read."""
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        if where in _READ_HERE:
            is_required = name in schema.get("required", ())
            yield f"`{where}`", _describe_type(inner), _describe_field(inner, needed=is_required)
        yield from _list_fields_read_here(inner, where)


def _find_item_schema(schema: Schema) -> tuple[Schema, str]:
    """Return the schema whose fields are this one's, and what the path to them adds."""
    if isinstance(schema.get("items"), Mapping):
        return schema["items"], "[]"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return schema["additionalProperties"], ".*"
    return schema, ""


def _describe_type(schema: Schema) -> str:
    """Return the type of a field for readers, such as "list of object" or "integer (int32)"."""
    # Quantities are the only fields of our kinds that are an integer or a string.
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_describe_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"map of {_describe_type(schema['additionalProperties'])}"
    form = schema.get("format")
    return f"{kind} ({form})" if form else str(kind)


def _describe_field(schema: Schema, *, needed: bool) -> str:
    """Describe a field in its cell: its description, enum values, limits and default."""
    parts = ["**required**."] if needed else []
    if described := schema.get("description"):
        parts.append(str(described))
    if words := schema.get("enum"):
        parts.append(f"One of {', '.join(f'`{word}`' for word in words)}.")
    # The pattern of quantities is left out, because the type of the field is "quantity".
    limit_values = {
        name: schema[name] for name, _ in _LIMITS if name in schema and schema[name] != QUANTITY
    }
    limits = [
        _describe_limit(template, limit_values[name])
        for name, template in _LIMITS
        if name in limit_values
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


def _render_rules(schema: Schema) -> Iterator[str]:
    """Yield the table of a kind's rules; nothing if it has none."""
    rule_rows = list(_list_rules(schema, ""))
    if not rule_rows:
        return
    yield "The API server refuses what breaks one of these, whether the webhooks run or not.\n"
    yield from _render_table(("at", "message", "CEL"), rule_rows)


def _list_rules(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield a table row for each CEL rule of a schema and of all schemas in it.

    A row is the field that the rule is about, the message, and the rule, as Markdown.

    Args:
        path: the path from the kind to this schema, with a leading dot; empty for the kind.
    """
    for rule in schema.get("x-kubernetes-validations", ()):
        where = f"{path}{rule.get('fieldPath', '')}".lstrip(".") or "the object"
        yield f"`{where}`", rule["message"], f"`{rule['rule']}`"
    for name, inner in schema.get("properties", {}).items():
        yield from _list_rules(inner, f"{path}.{name}")
    # The items of a list add "[]" to the path, the values of a map ".*".
    item_schema, suffix = _find_item_schema(schema)
    if suffix:
        yield from _list_rules(item_schema, path + suffix)


def _render_conditions(conditions: Iterable[ConditionWords]) -> Iterator[str]:
    """Yield a table of conditions; the rows of a condition's reasons follow the condition."""
    rows = []
    for condition in conditions:
        rows.append((f"**{condition.type}**", "", f"True while {condition.meaning}"))
        rows += [("", f"`{reason}`", meaning) for reason, meaning in condition.reasons.items()]
    yield from _render_table(("condition", "reason", "what it says"), rows)


def _render_events(events: Iterable[EventWords]) -> Iterator[str]:
    """Yield a table of events."""
    rows = [(event.type, f"`{event.reason}`", event.meaning) for event in events]
    yield from _render_table(("type", "reason", "when"), rows)


def _render_marks() -> Iterator[str]:
    """Yield the section about labels, annotations and finalizers."""
    yield "## Labels, annotations, finalizers\n"
    yield "Labels are for people and are put right where they drift; they decide nothing, but for"
    yield "the role. Only what is marked so is meant to be set by hand.\n"
    rows = [(f"`{name}`", kinds, meaning) for name, (kinds, meaning) in MARKS.items()]
    yield from _render_table(("name", "on", "what it is"), rows)


def _render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, and an empty line after it."""
    yield _render_row(head)
    yield _render_row(["---"] * len(head))
    yield from map(_render_row, rows)
    yield ""


def _render_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escape_cell(cell) for cell in cells)} |"


def _escape_cell(content: str) -> str:
    """Escape content that would end its cell: Markdown reads a bar in code as a bar too."""
    return content.replace("|", "\\|").replace("\n", " ")
