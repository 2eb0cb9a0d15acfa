"""Completion of names by the Tab key: pools, namespaces, contexts, tenants and allocations.

If the names cannot be read (no kubeconfig, no answer, no right), there are no completions: a shell
has no place for an error message during completion.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
from click.shell_completion import CompletionItem

from controller.errors import ConfigurationError, ControllerError, Forbidden

if TYPE_CHECKING:
    from controller.meta import Key
    from controller.resource import Resource

ANSWER_SECONDS = 3.0
"""The longest time that a user who pressed Tab waits, in seconds."""


def complete_contexts(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the contexts of the kubeconfig that begin with a text."""
    from controller.config import list_context_names

    try:
        contexts = list_context_names(_get_kubeconfig(ctx))
    except ConfigurationError:
        return []
    return _filter_by_beginning(contexts, incomplete)


def complete_namespaces(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the cluster's namespaces that begin with a text."""
    from reconcilers.api.resources import NAMESPACE

    return _filter_by_beginning(
        [key.name for _, key in _list_objects(ctx, [NAMESPACE])], incomplete
    )


def complete_pools(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the completions of a pool: NAME or KIND/NAME.

    If the text is empty, KIND/NAME is a completion only for pools that share their name: all pools
    are listed then, and the list should be short.
    """
    from reconcilers.integrations.poolkinds import list_pool_kinds

    candidates = [(kind.lower(), key.name) for kind, key in _list_objects(ctx, list_pool_kinds())]
    counts = Counter(name for _, name in candidates)
    with_kind = [f"{kind}/{name}" for kind, name in candidates if incomplete or counts[name] > 1]
    return _filter_by_beginning([*counts.keys(), *with_kind], incomplete)


def complete_tenants_and_allocations(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the completions of a TenantCluster or an IPAllocation.

    If the text is empty, these are names, and KIND/NAMESPACE/NAME for objects that share their
    name. Else these are NAME, NAMESPACE/NAME and KIND/NAMESPACE/NAME of all objects.
    """
    from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER

    listed = _list_objects(ctx, (TENANT_CLUSTER, IP_ALLOCATION))
    counts = Counter(key.name for _, key in listed)
    full_names = [
        f"{kind.lower()}/{key}" for kind, key in listed if incomplete or counts[key.name] > 1
    ]
    qualified_names = [str(key) for _, key in listed] if incomplete else []
    return _filter_by_beginning([*counts.keys(), *qualified_names, *full_names], incomplete)


def _filter_by_beginning(names: Sequence[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin with a text, sorted, without those with control characters."""
    from controller.plaintext import escape_text

    # An API server accepts no such name, and a terminal would act on its control characters.
    plain = {name for name in names if name == escape_text(name)}
    return [CompletionItem(name) for name in sorted(plain) if name.startswith(incomplete)]


def _get_kubeconfig(ctx: click.Context) -> Path | None:
    """Return the file of --kubeconfig on the incomplete command line; None if it is absent."""
    path = ctx.params.get("kubeconfig")
    return Path(path) if path else None


def _list_objects(ctx: click.Context, kinds: "Sequence[Resource[Any]]") -> "list[tuple[str, Key]]":
    """Return kind and key of each object of some kinds, in the cluster of the command line.

    Kinds that are not served, or that the user may not read, are left out. Empty if the cluster
    cannot be read in time.
    """
    from controller.client import Client
    from controller.config import open_transport

    namespace = ctx.params.get("namespace") or ""

    async def list_in_time() -> "list[tuple[str, Key]]":
        """Return the kinds and keys, read within ANSWER_SECONDS."""
        listed = []
        with anyio.fail_after(ANSWER_SECONDS):
            # A credential plugin must not ask for a password in the middle of a command line.
            async with open_transport(
                _get_kubeconfig(ctx),
                ctx.params.get("context"),
                user_agent="butler-ipam",
                may_ask=False,
            ) as transport:
                client = Client(transport)
                served_kinds = await client.list_served(kinds)
                for kind in kinds:
                    if kind not in served_kinds:
                        continue
                    with suppress(Forbidden):
                        page = await client.list(
                            kind.metadata_only, namespace=namespace if kind.namespaced else ""
                        )
                        listed += [(kind.kind, item.metadata.key) for item in page.items]
        return listed

    try:
        return anyio.run(list_in_time)
    except (ConfigurationError, ControllerError, TimeoutError):
        return []
