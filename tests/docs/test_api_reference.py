"""API.md is up to date and documents every reason, event, label and field of the code."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from reconcilers.api import crd, names
from reconcilers.api.vocabulary import MARKS, WORDS
from reconcilers.integrations.clusterapi.crds import KINDS as POOLS
from tests.docs.text import slug
from tests.reconcilers.cli.commandline import run

ROOT = Path(__file__).parents[2]
REASON_POSITIONS = {
    "ConditionFinding": 2,
    "network": 1,
    "network_condition": 1,
    "load_balancer": 1,
    "installed": 1,
    "demand": 1,
    "not_ready": 0,
    "TenantUnavailable": 0,
    "Unavailable": 0,
}
"""The position of the argument `reason` in calls of functions that make a condition."""
EVENT_REASON_POSITION = 3
READ_IN_ADDONS = ("spec.addons.loadBalancer.provider", "spec.addons.ingress.enabled")
"""The fields of a TenantCluster's addons that our controllers read."""


def parse_reconcilers() -> Iterator[tuple[ModuleType, ast.Module]]:
    """Yield each module of the reconcilers, except the command line, with its syntax tree."""
    for path in sorted((ROOT / "reconcilers").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "cli" not in parts and parts[-1] != "__init__":
            yield import_module(".".join(parts)), ast.parse(path.read_text(encoding="utf-8"))


def list_possible_words(module: ModuleType, node: ast.expr) -> Iterator[str]:
    """Yield the string values of an expression that are constants, names of the module or either.

    Args:
        module: the module that defines the names.
        node: the expression.
    """
    match node:
        case ast.Constant(value=str(word)):
            yield word
        case ast.Name(id=name) if isinstance(getattr(module, name, None), str):
            yield getattr(module, name)
        case ast.IfExp(body=one, orelse=other):
            yield from list_possible_words(module, one)
            yield from list_possible_words(module, other)
        case _:
            return


def list_reasons_of_call(module: ModuleType, call: ast.Call, place: int) -> Iterator[str]:
    """Yield the reasons that a call passes, at a position or as the keyword `reason`."""
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
    for node in (*call.args[place : place + 1], *by_name):
        yield from list_possible_words(module, node)


@cache
def list_written_reasons() -> tuple[frozenset[str], frozenset[str]]:
    """Return the reasons of conditions and of events that the controllers write."""
    reasons, events = set[str](), set[str]()
    for module, tree in parse_reconcilers():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            place = REASON_POSITIONS.get(called)
            if place is not None:
                reasons.update(list_reasons_of_call(module, node, place))
            if called == "record" and len(node.args) > EVENT_REASON_POSITION:
                events.update(list_possible_words(module, node.args[EVENT_REASON_POSITION]))
    return frozenset(reasons), frozenset(events)


@cache
def collect_string_literals() -> frozenset[str]:
    """Return every string literal in the reconcilers."""
    return frozenset(
        node.value
        for _, tree in parse_reconcilers()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_the_page_is_what_the_command_prints() -> None:
    printed = run("crds", "-o", "markdown")
    assert printed.code == 0
    assert (ROOT / "API.md").read_text(encoding="utf-8") == printed.out, "run `make api-docs`"


def test_every_reason_that_a_condition_can_have_is_documented() -> None:
    reported = {
        reason
        for words in WORDS.values()
        for condition in words.conditions
        for reason in condition.reasons
    }
    reasons, _ = list_written_reasons()
    assert len(reasons) > 30
    assert reasons - reported == set()


def test_every_event_that_is_recorded_is_documented() -> None:
    reported = {event.reason for words in WORDS.values() for event in words.events}
    _, events = list_written_reasons()
    assert len(events) > 3
    assert events - reported == set()


def test_every_documented_word_is_used_by_the_code() -> None:
    tiers = {"CapacityWarning", "CapacityCritical", "CapacityExhausted"}
    composed = {f"Pool{tier}" for tier in tiers}
    assert tiers <= collect_string_literals()
    for kind, words in WORDS.items():
        reported = {condition.type for condition in words.conditions}
        reported |= {reason for condition in words.conditions for reason in condition.reasons}
        reported |= {event.reason for event in words.events}
        assert reported - composed - collect_string_literals() == set(), kind


def test_every_label_annotation_and_finalizer_is_documented() -> None:
    prefixes = ("LABEL_", "ANNOTATION_", "FINALIZER_")
    own = {
        value
        for name, value in vars(names).items()
        if name.startswith(prefixes) and isinstance(value, str)
    }
    assert own == set(MARKS)


@pytest.mark.parametrize("kind", [kind.kind for kind in (*crd.KINDS, *POOLS)])
def test_every_kind_has_its_fields_and_its_rules_in_the_page(kind: str) -> None:
    page = (ROOT / "API.md").read_text(encoding="utf-8")
    assert f"### {kind} spec\n" in page
    [definition] = crd.build_crds_by_name([kind], POOLS)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in ("spec", "status"):
        for field in schema["properties"][part]["properties"]:
            assert f"| `{part}.{field}` |" in page
    for rule in schema.get("x-kubernetes-validations", ()):
        assert rule["message"] in page


def test_every_table_of_the_page_is_printed_once_and_linked_elsewhere() -> None:
    page = (ROOT / "API.md").read_text(encoding="utf-8")
    tables = re.findall(r"^### .+\n\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert len(tables) == len(set(tables))
    linked = re.findall(r"^The same as \[(.+)\]\(#(.+)\)\.$", page, re.MULTILINE)
    assert len(linked) > 10
    for heading, anchor in linked:
        assert f"### {heading}\n\n" in page
        assert anchor == slug(heading)


def test_objects_that_only_other_controllers_read_have_one_line() -> None:
    page = (ROOT / "API.md").read_text(encoding="utf-8")
    chapter = page.partition("### TenantCluster spec\n")[2].partition("\n### ")[0]
    assert re.findall(r"`(spec\.controlPlane[\w.]*)`", chapter) == ["spec.controlPlane"]
    fields = re.findall(r"^\| `(spec\.addons[\w.]*)`", chapter, re.MULTILINE)
    assert fields == ["spec.addons", *READ_IN_ADDONS]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("np", "-o", "markdown"), "has all kinds: remove the names of kinds"),
        (("-d", "x", "-o", "json"), "--directory always writes YAML"),
    ],
)
def test_contradicting_arguments_of_the_command_crds_are_rejected(
    arguments: tuple[str, ...], sentence: str
) -> None:
    outcome = run("crds", *arguments)
    assert outcome.code == 2
    assert sentence in outcome.errors[0]


def test_crds_come_as_json_and_as_names_too() -> None:
    assert run("crds", "ipa", "-o", "name").out == (
        "customresourcedefinition.apiextensions.k8s.io/ipallocations.butler.butlerlabs.dev\n"
    )
    assert run("crds", "inclusterippools", "-o", "name").out == (
        "customresourcedefinition.apiextensions.k8s.io/inclusterippools.ipam.cluster.x-k8s.io\n"
    )
    assert list(run("crds", "np", "-o", "json").items) == [
        "CustomResourceDefinition/networkpools.butler.butlerlabs.dev"
    ]
