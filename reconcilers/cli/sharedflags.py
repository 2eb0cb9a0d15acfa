"""Options that several commands share; each is declared here once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from reconcilers.api.tenantaddons import CILIUM, DEFAULT_LOAD_BALANCER
from reconcilers.cli import groups, names
from reconcilers.cli.flags import group_options, option, with_options
from reconcilers.cli.forms import FORMS

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

SHOWN_NAMESPACE = (
    "Show only objects of this namespace, and pools that are in no namespace; all namespaces if"
    " absent."
)
NAMED_NAMESPACE = (
    "Look for NAME in this namespace alone; in all namespaces if absent. Users who may read one"
    " namespace alone name it here."
)
FORM_OF_TABLES = (
    "Print in this format: wide shows more columns, json and yaml are for programs, name prints"
    " KIND/NAME for pipes."
)


def cluster_options(function: F) -> F:
    """Add --kubeconfig and --context to a command; they select its cluster."""
    return with_options(
        function,
        group_options(
            groups.CLUSTER,
            option(
                "--kubeconfig",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Connect with this kubeconfig; if absent, with the one that kubectl finds, or"
                " the service account of the pod.",
            ),
            option(
                "--context",
                shell_complete=names.complete_contexts,
                metavar="NAME",
                help="Use this context of the kubeconfig; if absent, its current one.",
            ),
        ),
    )


def namespace_option(sentence: str = SHOWN_NAMESPACE, default: str = "") -> Callable[[F], F]:
    """Return the option -n.

    Args:
        sentence: the help of the option.
        default: the namespace if the option is absent.
    """
    return option(
        *("-n", "--namespace"),
        default=default,
        shell_complete=names.complete_namespaces,
        metavar="NAME",
        help=sentence,
    )


def file_options(sentence: str, *, required: bool = False) -> Callable[[F], F]:
    """Return the options -f and -R.

    Args:
        sentence: the help of -f.
        required: whether the command reads files only, so that -f is required.
    """
    files = option(
        *("-f", "--filename"),
        multiple=True,
        required=required,
        metavar="FILE|FOLDER|-",
        help=f"{sentence}; - means standard input. May be repeated.",
    )
    recursive = option(
        *("-R", "--recursive"),
        is_flag=True,
        help="Read the folders inside the folders of --filename, too.",
    )
    return lambda function: with_options(function, files, recursive)


def _scope_options(sentence: str) -> Callable[[F], F]:
    """Return the options that select what is read: a cluster or files, and namespaces.

    Args:
        sentence: the help of -n.
    """
    all_namespaces = option(
        *("-A", "--all-namespaces"),
        is_flag=True,
        help="Read all namespaces, whatever --namespace says.",
    )
    files = file_options("Read objects saved with `kubectl get -o yaml` instead of a cluster")
    return lambda function: with_options(
        function, cluster_options, namespace_option(sentence), all_namespaces, files
    )


def scope_options(function: F) -> F:
    """Give a command that shows objects the options that `cluster.objects.build_scope` reads."""
    return _scope_options(SHOWN_NAMESPACE)(function)


def named_scope_options(function: F) -> F:
    """Give a command that takes a name the options of `scope_options`, with another help of -n."""
    return _scope_options(NAMED_NAMESPACE)(function)


def output_option(
    sentence: str = FORM_OF_TABLES, forms: Sequence[str] = FORMS
) -> Callable[[F], F]:
    """Return the option -o.

    Args:
        sentence: what the formats are, for --help.
        forms: the formats; the first is the default.
    """
    return option(*("-o", "--output"), type=click.Choice(forms), default=forms[0], help=sentence)


def watch_option() -> Callable[[F], F]:
    """Return the option -w."""
    return option(
        *("-w", "--watch"),
        is_flag=True,
        help="Show the output again whenever it changes, until Ctrl-C.",
    )


def tenants_option() -> Callable[[F], F]:
    """Return the option --tenants of commands that can ask the tenants' API servers."""
    return option(
        "--tenants",
        is_flag=True,
        help="Ask the API server and the load balancer of every tenant, too.",
    )


def listen_option(default: str, sentence: str) -> Callable[[F], F]:
    """Return the option --listen.

    Args:
        default: HOST:PORT if the option is absent.
        sentence: what is served, for --help.
    """
    return option(
        "--listen",
        default=default,
        metavar="HOST:PORT",
        help=f"{sentence}; port 0 takes any free port.",
    )


def log_level_option(default: str) -> Callable[[F], F]:
    """Return the option --log-level.

    Args:
        default: the level if it is absent.
    """
    return option(
        *("--log-level", "--zap-log-level", "log_level"),
        type=click.Choice(["debug", "info", "warning", "error"]),
        default=default,
        help="Log messages of this level and above, on standard error.",
    )


def server_options(written: str, name: str) -> Callable[[F], F]:
    """Return the options --data and --kubeconfig of commands that start API servers.

    Args:
        written: what is written to --kubeconfig, for --help.
        name: the name of the file if --kubeconfig is absent.
    """
    data = option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="FOLDER",
        help="Keep the objects in this folder from one start to the next; if absent, they are in"
        " memory only.",
    )
    kubeconfig = option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="BUTLER_IPAM_WRITE_KUBECONFIG",
        metavar="FILE",
        help=f"Write {written} to this file. If absent, the file is {name} in the folder of"
        " --data, or in a temporary folder.",
    )
    return lambda function: with_options(function, data, kubeconfig)


def load_balancer_option() -> Callable[[F], F]:
    """Return the option --load-balancer of commands that start tenants."""
    return option(
        "--load-balancer",
        type=click.Choice([DEFAULT_LOAD_BALANCER, CILIUM]),
        default=DEFAULT_LOAD_BALANCER,
        help="Use this load balancer in tenants, or a stand-in if its program is not found.",
    )
