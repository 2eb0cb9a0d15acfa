"""Whatever a document names exists: files, links, flags, metrics, conditions, alerts, labels."""

import re
from functools import cache
from importlib import import_module
from inspect import getsource
from pathlib import Path
from typing import Any

import click
import grimp
import pytest
import yaml

import controller
from reconcilers.addressmap import audit
from reconcilers.api import crd
from reconcilers.api.ipallocation import PREFER_DUAL_STACK, REQUIRE_DUAL_STACK, SINGLE_STACK
from reconcilers.api.vocabulary import MARKS, WORDS
from reconcilers.cli.main import COMMANDS, cli
from reconcilers.health import controllers, pools, requests, tenants
from reconcilers.integrations.core.gauges import GAUGES, OLDEST
from reconcilers.integrations.kubermatic import gauges as kubermatic
from reconcilers.integrations.vitistack import gauges as vitistack
from reconcilers.metrics.objectgauges import OPEN_PROMISES, POOL_GAUGES
from tests.docs.text import (
    DOCUMENTS,
    OPERATING,
    ROOT,
    URLS,
    count_words,
    headings,
    links,
    list_quoted,
    prose,
    read,
    sentences,
    slug,
)
from tests.servers import OLDEST_ASSETS

PACKAGES = (
    *("allocator", "controller", "envtest", "manifests", "reconcilers", "tests"),
    ".ci",
)
FOREIGN_WORDS = {
    *("LoadBalancer", "IPAddressPool", "IPAddressPools", "L2Advertisement", "ConfigMap"),
    *("ValidatingWebhookConfiguration", "ServiceMonitor", "NodePort", "PostgreSQL"),
}
"""Words in CamelCase that are others': kinds of Kubernetes and of MetalLB."""
FOREIGN_FLAGS = (
    *("--set", "--take-ownership", "--prefix", "--replicas", "--switches", "--lb-class"),
    "--watched",
)
"""Flags of Helm, kubectl, the simulation, MetalLB and the scaffold that sentences name."""


def list_quoted_paths(document: str) -> list[str]:
    """Return the files and folders that a document names in backticks."""
    folders = "|".join(re.escape(package) for package in PACKAGES)
    return [
        word for word in list_quoted(document) if re.fullmatch(rf"(?:{folders})/[\w./-]*", word)
    ] + [
        word
        for word in list_quoted(document)
        if re.fullmatch(r"[\w.-]+\.(?:md|txt|json|toml)", word)
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_exists(document: str) -> None:
    base = (ROOT / document).parent
    made_by_readers = {"restore.json", "ipam-backup.json"}
    missing = [
        name
        for name in list_quoted_paths(document)
        if not (ROOT / name).exists()
        and not (base / name).exists()
        and name not in made_by_readers
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document: str) -> None:
    base = (ROOT / document).parent
    for link in links(document):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (base / path).resolve() if path else ROOT / document
        assert target.exists(), link
        if anchor:
            known = [slug(heading) for heading in headings(str(target.relative_to(ROOT)))]
            assert anchor in known, link


def test_every_url_of_the_project_is_that_of_a_file_or_page_of_its_repository() -> None:
    files = f"{URLS['Repository']}/blob/main/"
    for name in ("Documentation", "Changelog"):
        assert (ROOT / URLS[name].removeprefix(files)).is_file()


@cache
def list_flags_and_variables() -> dict[str, set[str]]:
    """Return the flags and variables of every command."""
    names_by_subject: dict[str, set[str]] = {"flags": {"--help", "--version"}, "variables": set()}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for param in command.params:
            if isinstance(param, click.Option):
                names_by_subject["flags"].update((*param.opts, *param.secondary_opts))
                names_by_subject["variables"].add(str(param.envvar))
    return names_by_subject


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_flag_is_one_of_some_command(document: str) -> None:
    if document == "controller/README.md":
        return  # has no command line
    groups = {
        match.group(0)
        for word in list_quoted(document)
        if (match := re.match(r"--[a-z][a-z-]+", word)) and not word.startswith(FOREIGN_FLAGS)
    }
    assert groups - list_flags_and_variables()["flags"] == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_environment_variable_is_read_by_the_code(document: str) -> None:
    matches = set(re.findall(r"\bBUTLER_IPAM_[A-Z_]*[A-Z]\b", read(document)))
    tests = {"BUTLER_IPAM_TEST_SEEDS", "BUTLER_IPAM_TEST_ROUNDS", OLDEST_ASSETS}
    assert matches - list_flags_and_variables()["variables"] - tests == set()


@cache
def list_metrics() -> set[str]:
    """Return the metrics that the sources register, by the names that Prometheus shows."""
    metric_names = {f"butler_network_pool_{name}" for name, *_ in (*POOL_GAUGES, OPEN_PROMISES)}
    for prefix in (kubermatic.METRICS, vitistack.METRICS):
        metric_names |= {f"{prefix}_{name}" for name in (*(name for name, _, _ in GAUGES), OLDEST)}
    for package in ("controller", "reconcilers"):
        for path in (ROOT / package).rglob("*.py"):
            content = path.read_text(encoding="utf-8")
            metric_names.update(re.findall(r'"([a-z]+(?:_[a-z0-9]+)+)"', content))
    queues = {"waiting_allocations", "oldest_waiting_seconds"}
    queues |= {"releasing_allocations", "oldest_release_seconds"}
    assert queues <= metric_names
    return metric_names | {f"butler_network_pool_{name}" for name in queues}


@pytest.mark.parametrize("document", ["README.md", *OPERATING])
def test_every_metric_is_exposed_by_the_code(document: str) -> None:
    prefixes = r"(?:butler_|controller_runtime_|workqueue_|rest_client_|leader_election_)"
    for word in list_quoted(document):
        for name in re.findall(rf"^({prefixes}[a-z_]+)(\*?)(?:\{{.*)?$", word):
            if name[1]:
                assert any(metric.startswith(name[0]) for metric in list_metrics()), word
            else:
                assert name[0] in list_metrics(), word


@cache
def list_known_words() -> set[str]:
    """Return every CamelCase word that our objects, alerts and reports say."""
    kinds = {kind.kind for kind in crd.KINDS} | {f"{kind.kind}s" for kind in crd.KINDS}
    kinds |= {SINGLE_STACK, PREFER_DUAL_STACK, REQUIRE_DUAL_STACK}
    for reported in WORDS.values():
        for condition in reported.conditions:
            kinds |= {condition.type, *condition.reasons}
        kinds |= {event.reason for event in reported.events}
    findings = {
        kind
        for module in (audit, tenants, pools, requests, controllers)
        for kind in re.findall(r'[Ff]inding\(\s*"(\w+)"', getsource(module))
    }
    assert {"Overlap", "Orphan", "ServicesWait", "ReleaseWaits"} <= findings
    kinds |= findings | {pools.POOL_OVERLAPPING}
    return kinds | {alert["alert"] for alert in read_alerts()}


def read_alerts() -> list[dict[str, str]]:
    [rule] = yaml.safe_load_all((ROOT / "manifests/prometheus/alerts.yaml").read_text("utf-8"))
    return [
        alert_rule
        for group in rule["spec"]["groups"]
        for alert_rule in group["rules"]
        if "alert" in alert_rule
    ]


@pytest.mark.parametrize("document", ["README.md", *OPERATING, "CHANGELOG.md"])
def test_every_condition_reason_and_event_is_one_that_is_written(document: str) -> None:
    quoted_words = {
        word
        for word in list_quoted(document)
        if re.fullmatch(r"(?:[A-Z][a-z]+|IP|LB|MetalLB|GC){2,}", word)
    }
    assert quoted_words - list_known_words() - FOREIGN_WORDS == set()


def test_conditions_in_queries_of_the_guide_exist() -> None:
    pages = "".join(map(read, OPERATING))
    types = re.findall(r'@\.type=="(\w+)"', pages)
    conditions = {
        condition.type for reported in WORDS.values() for condition in reported.conditions
    }
    assert types
    assert set(types) <= conditions


def test_every_label_and_annotation_exists() -> None:
    for document in DOCUMENTS:
        content = read(document).replace("\\", "")
        matches = re.findall(r"butler\.butlerlabs\.dev/[a-z-]*[a-z]", content)  # `key-` removes it
        assert set(matches) - set(MARKS) - {"butler.butlerlabs.dev/v"} == set(), document


def test_every_symptom_of_the_guide_is_a_chapter() -> None:
    known = [heading for page in OPERATING for heading in headings(page)]
    for symptom in (
        "IPAllocation stuck in Pending",
        "IPAllocation in Failed state",
        "Growth allocation not firing",
        "Unexpected shrink",
        "Orphaned allocations",
        "NetworkPool cannot be deleted",
        "MetalLB pool drift",
    ):
        assert symptom in known


def test_every_runbook_is_of_an_alert_and_the_other_way_round() -> None:
    runbooks = prose("docs/operating/runbooks.md")
    titles = re.findall(r"^### (.+)$", runbooks, re.MULTILINE)
    assert sorted(titles) == sorted(alert["alert"] for alert in read_alerts())


def test_log_lines_that_the_guide_greps_for_are_logged() -> None:
    content = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "reconcilers").rglob("*.py")
        if "cli" not in path.relative_to(ROOT).parts
    )
    for line in (
        "elastic IPAM growth blocked by quota",
        "quota would be exceeded",
        "cannot get tenant client",
        "shrink withdrawn",
        "elastic IPAM: shrinking unused allocation",
    ):
        assert line in content, line


ROUTE = re.compile(r"`((?:controller|reconcilers)/[\w/]+)\.py`")


PROTOCOLS = {"controller.httptransport": "controller.transport"}
"""Modules that others call by a protocol, and the module of the protocol."""


def list_route_modules() -> list[str]:
    """Return the modules on the route of one event, in the order in which it passes them."""
    chapter = prose("ARCHITECTURE.md").partition("## The route of one event\n")[2]
    steps = chapter.partition("\nThere is no waiting")[0]
    modules = [match.replace("/", ".") for match in ROUTE.findall(steps)]
    return [module for module in modules if not module.startswith("reconcilers.api")]


def list_imports(graph: Any, module: str) -> set[str]:
    """Return the modules that one imports, those of the framework by its public names too."""
    direct: set[str] = graph.find_modules_directly_imported_by(module)
    if "controller" not in direct:
        return direct
    names = re.search(r"^from controller import (\([^)]*\)|.*)$", source(module), re.MULTILINE)
    assert names is not None
    public = [getattr(controller, name) for name in re.findall(r"\w+", names[1])]
    return direct | {str(getattr(member, "__module__", "")) for member in public}


def source(module: str) -> str:
    """Return the text of a module of ours."""
    return Path(str(import_module(module).__file__)).read_text()


def test_the_route_of_one_event_is_one_along_which_modules_import_each_other() -> None:
    graph = grimp.build_graph("allocator", "controller", "reconcilers", cache_dir=None)
    route_modules = list_route_modules()
    assert route_modules[0] == "controller.httptransport"
    assert len(route_modules) >= 12
    for place, module in enumerate(route_modules):
        assert module in graph.modules, module
        before, following = route_modules[:place], route_modules[place + 1 :]
        earlier_imports = set(before) & list_imports(graph, module)
        called_as = PROTOCOLS.get(module, module)
        later_importers = [
            module for module in following if called_as in list_imports(graph, module)
        ]
        assert earlier_imports or later_importers, f"{module} stands where nothing leads"
        # The framework never reaches for what is built on it.
        if module.startswith("controller."):
            later = [module for module in following if module.startswith("reconcilers.")]
            assert not set(later) & graph.find_modules_directly_imported_by(module)


def test_every_dependency_is_counted() -> None:
    table = read("docs/design/dependencies.md")
    rows = re.findall(r"^\| ([\w.-]+)( \(extra.*?\))? \|", table, re.MULTILINE)
    shipped = [name for name, extra in rows if not extra and name not in {"package", "---"}]
    assert len(shipped) == len(set(shipped)) == 11
    assert "there are eleven direct ones" in " ".join(read("SECURITY.md").split())


def test_documents_name_no_place_outside_of_the_repository() -> None:
    for document in DOCUMENTS:
        for path in re.findall(r"(?<![\w/.])/(?:home|root|work|Users)/\S+", read(document)):
            assert not Path(path).is_absolute(), document


def test_every_page_of_the_guide_has_at_most_250_lines_and_is_in_the_index() -> None:
    for page in OPERATING:
        assert len(read(page).splitlines()) <= 250, page
    assert set(links("OPERATIONS.md")) >= set(OPERATING)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_sentence_has_at_most_30_words(document: str) -> None:
    assert [sentence for sentence in sentences(document) if count_words(sentence) > 30] == []


def test_links_to_a_section_of_the_index_lead_to_the_page_that_has_it() -> None:
    """Links from outside name anchors of the guide as it was when it was one document."""
    content = read("OPERATIONS.md")
    anchors = re.findall(r'<a id="([^"]+)"></a>(?=[^|]*?\]\(docs/operating/)', content)
    assert len(anchors) == len(set(anchors)) == 70
    assert set(anchors) >= {alert["alert"].lower() for alert in read_alerts()}
