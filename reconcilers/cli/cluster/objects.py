"""The objects that questions are asked about: all of a cluster, or what files hold of one."""

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
from reconcilers.cli.problems import WRONG_INPUT, CommandProblem, say
from reconcilers.cli.progress import hide_progress, progress
from reconcilers.integrations.core.scopedlists import describe_limits
from reconcilers.reporting.wording import count_noun, name_with_count

T = TypeVar("T", bound=Object)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ReadingScope:
    """Where to look.

    Args:
        kubeconfig: a file; None looks where kubectl looks.
        context: one in the kubeconfig; None takes its current one.
        namespace: show only this one, and pools of the whole cluster; empty for all.
        files: read these instead of a cluster.
        recursive: whether folders inside the folders of `files` are read too.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""
    files: tuple[str, ...] = ()
    recursive: bool = False


def build_scope(values: Mapping[str, Any]) -> ReadingScope:
    """Return where to look, by the values of the options."""
    namespace = "" if values["all_namespaces"] else values["namespace"]
    return ReadingScope(
        kubeconfig=values["kubeconfig"],
        context=values["context"],
        namespace=namespace,
        files=tuple(values["filename"]),
        recursive=values["recursive"],
    )


def read_all(where: ReadingScope, required: Sequence[Resource[Any]] = REQUIRED) -> Objects:
    """Return the objects of a cluster, or of files saved from one, of all namespaces.

    With -n and a user who may not read all namespaces, those of that namespace; what could not be
    read is reported. `Objects.within` selects what is shown.

    Args:
        where: the cluster or the files.
        required: the kinds without which there is no answer.

    Raises:
        Problem: the cluster or the files cannot be read.
    """
    if where.files:
        with progress("reading files"):
            return _read_files(where)
    return read_cluster(where, lambda client: read_objects(client, where.namespace, required))


def read_cluster(where: ReadingScope, read: Callable[[Any], Awaitable[Objects]]) -> Objects:
    """Return the objects that `read` reads of a cluster; report the kinds the user may not read.

    Args:
        where: the cluster.
        read: reads the objects with a client.

    Raises:
        Problem: the cluster cannot be read.
    """
    objects = in_cluster(where, "reading the cluster's objects", read)
    report_not_read(objects)
    return objects


def read_shown(where: ReadingScope) -> Objects:
    """Return the objects of `read_all` that concern the namespace of -n.

    Raises:
        Problem: the cluster or the files cannot be read.
    """
    return read_all(where).within(where.namespace)


def report_not_read(objects: Objects) -> None:
    """Warn of what the user may not read, and note it for documents."""
    if not objects.all_not_read:
        return
    kinds = describe_limits(objects.all_not_read)
    say("warning", f"you may not read {kinds}: what they hold, and so what is free, is unknown")
    click.get_current_context().meta[NOT_READ] = [str(limit) for limit in objects.all_not_read]


def report_unreadable(objects: Objects, resource: Resource[Any], namespace: str) -> None:
    """Warn of objects of a cluster that a table leaves out because they cannot be decoded.

    Those in files were reported when the files were read.

    Args:
        objects: what was read.
        resource: the kind of the table's rows.
        namespace: the namespace that is shown; empty for all.
    """
    keys = [
        str(key)
        for key in sorted(objects.unreadable_of(resource))
        if namespace in {"", key.namespace}
    ]
    if keys and objects.live:
        number = count_noun(
            len(keys),
            f"{resource.kind} that cannot be read is not shown",
            f"{resource.kind}s that cannot be read are not shown",
        )
        say(
            "warning",
            f"{number}: {name_with_count(keys)}; correct or delete what `butler-ipam check`"
            " reports",
        )


def note_empty_namespace(objects: Objects, namespace: str) -> None:
    """Report that the namespace of -n has no objects, because its name may be misspelled.

    Args:
        objects: what was read.
        namespace: the namespace; empty for all, which is not reported.
    """
    selected = objects.within(namespace).of_tenants(namespace)
    kinds = (
        selected.pools,
        selected.providers,
        selected.clusters,
        selected.allocations,
        selected.unreadable,
    )
    if not namespace or any(kinds) or objects.not_read:
        return
    say(
        "note",
        f"namespace {namespace} has no NetworkPool, ProviderConfig, TenantCluster or"
        " IPAllocation; check its name",
    )


def in_cluster(where: ReadingScope, activity: str, work: Callable[[Any], Awaitable[R]]) -> R:
    """Return the result of `work` in the cluster of a where.

    Args:
        where: the cluster.
        activity: in words, for `progress`.
        work: takes a `controller.client.Client`.

    Raises:
        Problem: the cluster cannot be reached, or refuses.
    """
    results: list[R] = []

    async def ask() -> None:
        # The result is not the task's: asyncio.Runner prints the task into the message of an
        # error that it swallows, and that is as long as all of the cluster's objects.
        from controller.client import Client
        from controller.config import open_transport

        async with AsyncExitStack() as stack:
            with hide_progress():  # an exec plugin may ask something on the terminal
                transport = await stack.enter_async_context(
                    open_transport(where.kubeconfig, where.context, user_agent="butler-ipam")
                )
            results.append(await work(Client(transport, field_manager="butler-ipam")))

    try:
        with progress(activity):
            anyio.run(ask)
    except (ConfigurationError, ControllerError) as error:
        raise CommandProblem(_describe_error(error, where)) from error
    return results[0]


def _read_files(where: ReadingScope) -> Objects:
    from reconcilers.cli.reading.findings import Findings  # with all that validates a file
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
        if finding.severity != "note":  # what was passed over is no surprise in a whole cluster
            say(finding.severity, finding.sentence)
    if findings.wrong:
        click.get_current_context().meta[WRONG_INPUT] = True
    if not manifests.every() and not manifests.others:
        raise CommandProblem(f"no object of butler-ipam was found in {', '.join(where.files)}")

    def index_by_key(manifests: Sequence[ReadManifest[T]]) -> dict[Key, T]:
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
        refused=manifests.refused - manifests.unreadable.keys(),
        live=False,
        owners_known=bool(manifests.tenants),
        integrations=views.from_manifests(
            manifests.others,
            _default_namespace(where),
            pools=NetworkPools([*pools.values()], manifests.unreadable_of("NetworkPool").keys()),
            now=datetime.now(UTC),
        ),
        platform_default=PlatformDefault(
            parse_reference(manifests.platform_default, names.DEFAULT_NAMESPACE)
        ),
    )


def _default_namespace(where: ReadingScope) -> str:
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
    before = "the API server rejected the request:  " if isinstance(error, ApiError) else ""
    return f"{before}{error}"
