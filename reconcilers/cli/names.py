"""What Tab offers for names: of pools, namespaces and contexts, as kubectl does.

What cannot be found out (no kubeconfig, no answer, no right) offers nothing: a shell that
completes has no place for a sentence.
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
"""A user who pressed Tab waits no longer than this."""


def contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the contexts of the kubeconfig that begin so."""
    from controller.config import list_context_names

    try:
        contexts = list_context_names(_kubeconfig(ctx))
    except ConfigurationError:
        return []
    return _beginning(contexts, incomplete)


def namespaces(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the cluster's namespaces that begin so."""
    from reconcilers.api.resources import NAMESPACE

    return _beginning([key.name for _, key in _list_objects(ctx, [NAMESPACE])], incomplete)


def pools(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the pools of all kinds that begin so: names, and names with `kind/` before them.

    While nothing is typed yet, only pools that share their name are offered with their kind.
    """
    from reconcilers.integrations.poolkinds import pool_kinds

    candidates = [(kind.lower(), key.name) for kind, key in _list_objects(ctx, pool_kinds())]
    count = Counter(name for _, name in candidates)
    with_kind = [f"{kind}/{name}" for kind, name in candidates if incomplete or count[name] > 1]
    return _beginning([*count, *with_kind], incomplete)


def tenants_and_allocations(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the TenantClusters and IPAllocations that begin so.

    Those that share their name are offered with their kind and namespace.
    """
    from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER

    listed = _list_objects(ctx, (TENANT_CLUSTER, IP_ALLOCATION))
    count = Counter(key.name for _, key in listed)
    ambiguous = [(kind, key) for kind, key in listed if incomplete or count[key.name] > 1]
    full_names = [f"{kind.lower()}/{key}" for kind, key in ambiguous]
    qualified = [str(key) for _, key in listed] if incomplete else []
    return _beginning([*count, *qualified, *full_names], incomplete)


def _beginning(names: Sequence[str], incomplete: str) -> list[CompletionItem]:
    from controller.plaintext import escape_text

    # A name that no API server accepts is not offered: a shell would act on its characters.
    plain = {name for name in names if name == escape_text(name)}
    return [CompletionItem(name) for name in sorted(plain) if name.startswith(incomplete)]


def _kubeconfig(ctx: click.Context) -> Path | None:
    path = ctx.params.get("kubeconfig")
    return Path(path) if path else None


def _list_objects(ctx: click.Context, kinds: "Sequence[Resource[Any]]") -> "list[tuple[str, Key]]":
    """Return the kinds and keys of objects in the cluster that the words before lead to.

    Kinds that are not served, or that the user may not read, have none.
    """
    from controller.client import Client
    from controller.config import open_transport

    within = ctx.params.get("namespace") or ""

    async def names() -> "list[tuple[str, Key]]":
        listed = []
        with anyio.fail_after(ANSWER_SECONDS):
            asked = _kubeconfig(ctx), ctx.params.get("context")
            async with open_transport(
                *asked, user_agent="butler-ipam", may_ask=False
            ) as transport:
                client = Client(transport)
                served_kinds = await client.list_served(kinds)
                for kind in kinds:
                    if kind not in served_kinds:
                        continue
                    with suppress(Forbidden):
                        page = await client.list(
                            kind.metadata_only, namespace=within if kind.namespaced else ""
                        )
                        listed += [(kind.kind, item.metadata.key) for item in page.items]
        return listed

    try:
        return anyio.run(names)
    except (ConfigurationError, ControllerError, TimeoutError):
        return []
