"""-o: tables for people, documents for programs, names for pipes. And the options all share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Literal, TypeVar

import click

from reconcilers.api import names
from reconcilers.cli.documents import as_json, as_yaml
from reconcilers.cli.managerflags import cluster_options
from reconcilers.cli.options import option
from reconcilers.cli.survey.objects import Scope

F = TypeVar("F", bound=Callable[..., Any])

Form = Literal["table", "wide", "json", "yaml", "name"]
FORMS: Sequence[Form] = ("table", "wide", "json", "yaml", "name")


def scope_options(function: F) -> F:
    """Give a command the options that `scope` reads."""
    added: list[Callable[[F], F]] = [
        cluster_options,
        option(
            *("-n", "--namespace"), default="", help="Only this namespace; all of them if absent."
        ),
        option(
            *("-A", "--all-namespaces"),
            is_flag=True,
            help="All namespaces, whatever --namespace says.",
        ),
        option(
            *("-f", "--filename"),
            multiple=True,
            metavar="FILE|FOLDER|-",
            help="Read what was saved with `kubectl get -o yaml` instead of a cluster.",
        ),
    ]
    return reduce(lambda made, give: give(made), reversed(added), function)


def scope(values: Mapping[str, Any]) -> Scope:
    """Return where to look."""
    return Scope(
        values["kubeconfig"],
        values["context"],
        "" if values["all_namespaces"] else values["namespace"],
        tuple(values["filename"]),
    )


def output_option(*forms: str) -> Callable[[F], F]:
    """Return the option -o with these forms; the first is the default."""
    return option(
        *("-o", "--output"),
        type=click.Choice(list(forms)),
        default=forms[0],
        help="wide shows more columns; json and yaml are for programs; name for pipes.",
    )


def document(kind: str, items: Iterable[Mapping[str, Any]], form: str) -> str:
    """Return items as one document.

    Args:
        kind: what they are, for example `PoolUsageList`; versioned, as programs rely on it.
        items: the items.
        form: json or yaml.
    """
    whole = {"apiVersion": "report.butler-ipam/v1", "kind": kind, "items": list(items)}
    return as_json(whole) if form == "json" else as_yaml([whole])


def named(plural: str, objects: Iterable[str]) -> str:
    """Return names as `kubectl get -o name` prints them."""
    return "".join(f"{plural}.{names.GROUP}/{name}\n" for name in objects)
