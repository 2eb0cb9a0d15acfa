"""Pools as people name them: `NAME`, `NAMESPACE/NAME`, or either with `KIND/` before it.

KIND may be written as kubectl takes and prints it: `NetworkPool`, `networkpools`, `np`, or
`networkpool.butler.butlerlabs.dev`.

Pools of different kinds or namespaces may have one name. Such a name is ambiguous: it is rejected
with the full names of the pools that have it.
"""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.poolpictures import draw_pools
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.cli.cluster.kindwords import list_kind_words
from reconcilers.cli.problems import CommandProblem
from reconcilers.integrations.core.views import UNREADABLE
from reconcilers.integrations.poolkinds import list_pool_kinds
from reconcilers.pictures.poolpicture import PoolPicture
from reconcilers.spaces.offers import PoolName


def draw_selected_pools(objects: Objects, names: Collection[str]) -> list[PoolPicture]:
    """Return the pools of a cluster that names select; all pools if there is no name.

    Raises:
        CommandProblem: a name selects no pool, several pools, or one that cannot be read.
    """
    unreadable = [
        PoolName(NETWORK_POOL.kind, key) for key in objects.find_unreadable(NETWORK_POOL)
    ]
    unreadable += [
        PoolName(trouble.subject, trouble.key)
        for trouble in objects.integrations.troubles
        if trouble.kind == UNREADABLE
    ]
    return select_pools(draw_pools(objects), names, unreadable)


def select_pools(
    pools: Sequence[PoolPicture], names: Collection[str], unreadable: Iterable[PoolName] = ()
) -> list[PoolPicture]:
    """Return the pools that names select, in their order; all pools if there is no name.

    Args:
        pools: the pools that could be read.
        names: as a user wrote them.
        unreadable: the pools that could not be read.

    Raises:
        CommandProblem: a name selects no pool, several pools, or one that cannot be read.
    """
    selected = {_select_pool(pools, name, unreadable) for name in names}
    return [pool for pool in pools if not names or pool.name in selected]


def _select_pool(
    pools: Sequence[PoolPicture], name: str, unreadable: Iterable[PoolName]
) -> PoolName:
    """Return the one pool that a name selects.

    Raises:
        CommandProblem: several pools have the name, or only an unreadable pool has it, or no pool
            has it. In the last case the message names the most similar pool.
    """
    # Several pictures may be of one pool, such as those of an IPAMPool's datacenters.
    candidates = list(dict.fromkeys(pool.name for pool in pools if _has_name(pool.name, name)))
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        candidate_names = ", ".join(map(format_full_name, candidates))
        raise CommandProblem(
            f"{len(candidates)} pools have the name {name!r}: {candidate_names}; name one of them"
        )
    for pool_name in unreadable:
        if _has_name(pool_name, name):
            raise CommandProblem(
                f"{pool_name.kind} {pool_name.key} cannot be read; correct or delete what"
                " `butler-ipam check` reports"
            )
    pool_names = ", ".join(dict.fromkeys(format_full_name(pool.name) for pool in pools)) or "none"
    near = _find_similar_name(pools, name)
    hint = f"; did you mean {near}? There are" if near else "; there are"
    raise CommandProblem(f"there is no pool {name!r}{hint}: {pool_names}")


def find_common_namespace(names: Collection[str]) -> str:
    """Return the namespace that all names have; empty if they differ, or a name has none."""
    namespaces = {_find_namespace(name) for name in names}
    return namespaces.pop() if len(namespaces) == 1 else ""


def _find_namespace(name: str) -> str:
    """Return the namespace in a name that a user wrote; empty if it has none."""
    match name.split("/"):
        case [head, _]:
            # KIND/NAME and NAMESPACE/NAME look alike: a word for a kind of pools is the kind.
            return "" if _find_kind(head) else head
        case [_, namespace, _]:
            return namespace
        case _:
            return ""


def _find_similar_name(pools: Sequence[PoolPicture], name: str) -> str:
    """Return the pool name that is most similar to a name; empty if none is similar.

    Names with a namespace or a kind share these parts, so the names of different pools look
    similar. Therefore such names must be more similar.
    """
    if "/" in name:
        full_names = [
            form for pool in pools for form in (str(pool.name.key), format_full_name(pool.name))
        ]
        matches = get_close_matches(name, full_names, n=1, cutoff=0.9)
    else:
        matches = get_close_matches(name, [pool.name.key.name for pool in pools], n=1)
    return matches[0] if matches else ""


def format_full_name(pool: PoolName) -> str:
    """Return the name that selects a pool alone: `KIND/NAMESPACE/NAME`."""
    return f"{pool.kind}/{pool.key}"


def _has_name(pool: PoolName, name: str) -> bool:
    """Return whether a name that a user wrote, with or without a kind, is the name of a pool."""
    plain_names = {pool.key.name, str(pool.key)}
    kind, _, rest = name.partition("/")
    return name in plain_names or (rest in plain_names and _find_kind(kind) == pool.kind)


def _find_kind(word: str) -> str | None:
    """Return the kind of pools that a user means by a word; None for no kind."""
    return next(
        (
            resource.kind
            for resource in list_pool_kinds()
            if word.lower() in list_kind_words(resource)
        ),
        None,
    )
