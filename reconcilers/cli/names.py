"""What Tab offers for names: of pools, namespaces and contexts, as kubectl does.

What cannot be found out (no kubeconfig, no answer, no right) offers nothing: a shell that
completes has no place for a sentence.
"""

from collections.abc import Sequence
from pathlib import Path

import anyio
import click
from click.shell_completion import CompletionItem

from controller.errors import ConfigurationError, ControllerError

ANSWER_SECONDS = 3.0
"""A user who pressed Tab waits no longer than this."""


def contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the contexts of the kubeconfig that begin so."""
    from controller.config import context_names

    try:
        found = context_names(_kubeconfig(ctx))
    except ConfigurationError:
        return []
    return _beginning(found, incomplete)


def namespaces(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the cluster's namespaces that begin so."""
    return _beginning(_listed(ctx, "namespaces"), incomplete)


def pools(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the NetworkPools that begin so."""
    return _beginning(_listed(ctx, "pools"), incomplete)


def _beginning(names: Sequence[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(incomplete)]


def _kubeconfig(ctx: click.Context) -> Path | None:
    found = ctx.params.get("kubeconfig")
    return Path(found) if found else None


def _listed(ctx: click.Context, what: str) -> list[str]:
    """Return the names of objects in the cluster that the words before lead to."""
    from controller.client import Client
    from controller.config import connected
    from controller.meta import MetadataOnly
    from controller.resource import Resource
    from reconcilers.api.resources import NAMESPACE, NETWORK_POOL

    pool = NETWORK_POOL
    named = Resource(pool.group, pool.version, pool.kind, pool.plural, MetadataOnly)
    resource = NAMESPACE if what == "namespaces" else named
    within = "" if what == "namespaces" else ctx.params.get("namespace") or ""

    async def names() -> list[str]:
        with anyio.fail_after(ANSWER_SECONDS):
            asked = _kubeconfig(ctx), ctx.params.get("context")
            async with connected(*asked, user_agent="butler-ipam", may_ask=False) as transport:
                page = await Client(transport).list(resource, namespace=within)
        return [one.metadata.name for one in page.items]

    try:
        return anyio.run(names)
    except (ConfigurationError, ControllerError, TimeoutError):
        return []
