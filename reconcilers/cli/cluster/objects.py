"""Reads the objects that a command needs: from a cluster, or from files."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import anyio
import click

from controller.errors import ApiError, ConfigurationError, ControllerError, Forbidden, NotFound
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.addressmap.objects import REQUIRED, Objects, PlatformDefault, read_objects
from reconcilers.api import names
from reconcilers.cli.output import NOT_READ
from reconcilers.cli.problems import WRONG_INPUT, CommandProblem, print_problem
from reconcilers.cli.progress import hide_progress, show_progress_during
from reconcilers.integrations.core.scopedlists import describe_limits
from reconcilers.reporting.wording import count_noun, name_with_count

T = TypeVar("T", bound=Object)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ReadingScope:
    """The cluster or the files that a command reads, and the namespace that it shows.

    Args:
        kubeconfig: a file; None for the kubeconfig that kubectl finds.
        context: a context of the kubeconfig; None for its current one.
        namespace: show only this namespace, and cluster-scoped pools; empty for all.
        files: files to read instead of a cluster.
        recursive: whether folders inside the folders of `files` are read, too.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""
    files: tuple[str, ...] = ()
    recursive: bool = False


def build_scope(values: Mapping[str, Any]) -> ReadingScope:
    """Return the reading scope from the values of `scope_options`."""
    namespace = "" if values["all_namespaces"] else values["namespace"]
    return ReadingScope(
        kubeconfig=values["kubeconfig"],
        context=values["context"],
        namespace=namespace,
        files=tuple(values["filename"]),
        recursive=values["recursive"],
    )


def read_all(where: ReadingScope, required: Sequence[Resource[Any]] = REQUIRED) -> Objects:
    """Return the objects of a cluster or of files, of all namespaces.

    If the user may not read all namespaces, the objects are those of the namespace of -n, and a
    warning names the rest. `Objects.within` selects the objects to show.

    Args:
        where: the cluster or the files.
        required: the kinds that must be readable.

    Raises:
        CommandProblem: the cluster or the files cannot be read.
    """
    if where.files:
        with show_progress_during("reading files"):
            return _read_files(where)
    return read_cluster(where, lambda client: read_objects(client, where.namespace, required))


def read_cluster(where: ReadingScope, read: Callable[[Any], Awaitable[Objects]]) -> Objects:
    """Return the objects that `read` reads in a cluster; warn about kinds that may not be read.

    Args:
        where: the cluster.
        read: reads the objects with a client.

    Raises:
        CommandProblem: the cluster cannot be read.
    """
    objects = run_in_cluster(where, "reading the cluster's objects", read)
    report_not_read(objects)
    return objects


def read_namespace_objects(where: ReadingScope) -> Objects:
    """Return the objects of the namespace of -n, with cluster-scoped pools and all clusters.

    Raises:
        CommandProblem: the cluster or the files cannot be read.
    """
    return read_all(where).select_namespace(where.namespace)


def report_not_read(objects: Objects) -> None:
    """Warn about lists that the user may not read, and note them for the documents of -o."""
    if not objects.all_not_read:
        return
    kinds = describe_limits(objects.all_not_read)
    print_problem(
        "warning", f"you may not read {kinds}: what they hold, and so what is free, is unknown"
    )
    click.get_current_context().meta[NOT_READ] = [str(limit) for limit in objects.all_not_read]


def report_unreadable(objects: Objects, resource: Resource[Any], namespace: str) -> None:
    """Warn about objects that a table leaves out because they cannot be decoded.

    Objects in files were reported when the files were read, and are not reported again.

    Args:
        objects: the objects that were read.
        resource: the kind of the table's rows.
        namespace: the namespace that is shown; empty for all.
    """
    keys = [
        str(key)
        for key in sorted(objects.find_unreadable(resource))
        if namespace in {"", key.namespace}
    ]
    if keys and objects.live:
        number = count_noun(
            len(keys),
            f"{resource.kind} that cannot be read is not shown",
            f"{resource.kind}s that cannot be read are not shown",
        )
        print_problem(
            "warning",
            f"{number}: {name_with_count(keys)}; correct or delete what `butler-ipam check`"
            " reports",
        )


def note_empty_namespace(objects: Objects, namespace: str) -> None:
    """Print a note if the namespace of -n has no objects: its name may be misspelled.

    Of an integration, its pools count, and what is wrong with its other objects.

    Args:
        objects: what was read.
        namespace: the namespace; empty for all, which is not reported.
    """
    selected = objects.select_namespace(namespace).select_tenants(namespace)
    # Pools in no namespace say nothing about the name.
    integrations = objects.integrations.select_namespaces({namespace})
    kinds = (
        selected.pools,
        selected.providers,
        selected.clusters,
        selected.allocations,
        selected.unreadable,
        integrations.pictures,
        integrations.troubles,
    )
    if not namespace or any(kinds) or objects.not_read:
        return  # all namespaces, or objects in it, or perhaps some that the user may not read
    print_problem(
        "note",
        f"namespace {namespace} has no NetworkPool, ProviderConfig, TenantCluster or"
        " IPAllocation, and no pool of an integration; check its name",
    )


def run_in_cluster(where: ReadingScope, activity: str, work: Callable[[Any], Awaitable[R]]) -> R:
    """Return the result of `work` with a client of a cluster.

    Args:
        where: the cluster.
        activity: a few words for the line of progress.
        work: takes a `controller.client.Client`.

    Raises:
        CommandProblem: the cluster cannot be reached, or rejects a request.
    """
    results: list[R] = []

    async def connect_and_work() -> None:
        """Connect, and append the result of `work` to `results`."""
        # The result is not returned, because it may be all objects of the cluster. asyncio.Runner
        # would write the result of a task into the message of an exception, which it drops.
        from controller.client import Client
        from controller.config import open_transport

        async with AsyncExitStack() as stack:
            with hide_progress():  # an exec plugin of the kubeconfig may ask on the terminal
                transport = await stack.enter_async_context(
                    open_transport(where.kubeconfig, where.context, user_agent="butler-ipam")
                )
            results.append(await work(Client(transport, field_manager="butler-ipam")))

    try:
        with show_progress_during(activity):
            anyio.run(connect_and_work)
    except (ConfigurationError, ControllerError) as error:
        raise CommandProblem(_describe_error(error, where)) from error
    return results[0]


def _read_files(where: ReadingScope) -> Objects:
    """Return the objects in files; print the findings about the files.

    Raises:
        CommandProblem: the files have no object of butler-ipam.
    """
    # Slow: it loads all modules that validate files.
    from reconcilers.cli.reading.findings import Findings
    from reconcilers.cli.reading.manifests import ReadManifest, read_manifests
    from reconcilers.integrations import views
    from reconcilers.integrations.core.platforms import NetworkPools
    from reconcilers.tenantcluster.providerreference import parse_reference

    findings = Findings()
    manifests = read_manifests(
        where.files,
        namespace=_default_namespace(where),
        now=datetime.now(UTC),
        findings=findings,
        recursive=where.recursive,
    )
    for finding in findings:
        if finding.severity != "note":  # skipped kinds are normal in a dump of a cluster
            print_problem(finding.severity, finding.sentence)
    if findings.has_errors:
        click.get_current_context().meta[WRONG_INPUT] = True
    if not manifests.list_own() and not manifests.others:
        raise CommandProblem(f"no object of butler-ipam was found in {', '.join(where.files)}")

    def index_by_key(manifests: Sequence[ReadManifest[T]]) -> dict[Key, T]:
        """Return the decoded objects of manifests by namespace and name."""
        return {manifest.key: manifest.object for manifest in manifests}

    unreadable = dict.fromkeys(manifests.refused, "it has an error, see above")
    unreadable |= manifests.unreadable
    pools = index_by_key(manifests.pools)
    return Objects(
        pools,
        index_by_key(manifests.allocations),
        clusters=index_by_key(manifests.tenants),
        providers=index_by_key(manifests.providers),
        unreadable=unreadable,
        # A stored object that is unreadable was not rejected by its API server.
        refused=manifests.refused - manifests.unreadable.keys(),
        live=False,
        owners_known=bool(manifests.tenants),
        integrations=views.from_manifests(
            manifests.others,
            _default_namespace(where),
            pools=NetworkPools([*pools.values()], manifests.find_unreadable("NetworkPool").keys()),
            now=datetime.now(UTC),
        ),
        platform_default=PlatformDefault(
            parse_reference(manifests.platform_default, names.DEFAULT_NAMESPACE)
        ),
    )


def _default_namespace(where: ReadingScope) -> str:
    """Return the namespace of objects in files that have none."""
    return where.namespace or names.DEFAULT_NAMESPACE


def _describe_error(error: Exception, where: ReadingScope) -> str:
    """Return why a cluster could not be read, and what to do about it."""
    if isinstance(error, Forbidden) and not where.namespace:
        return f"{error}; name a namespace that you may read with -n"
    if isinstance(error, Forbidden):
        return (
            f"you may not read what this command needs, neither in all namespaces nor in namespace"
            f" {where.namespace}: {error}; ask an administrator for the right to list it in"
            f" namespace {where.namespace}, or name with -n a namespace in which you have it"
        )
    if isinstance(error, NotFound):
        return f"{error}; are the CRDs installed? `butler-ipam crds | kubectl apply -f -`"
    before = "the API server rejected the request: " if isinstance(error, ApiError) else ""
    return f"{before}{error}"
