"""Pools as people name them: `NAME`, `NAMESPACE/NAME`, or either with `KIND/` before it.

Pools of different kinds or namespaces may have one name. A name selects all pools that have it.
"""

from collections.abc import Collection, Sequence

from reconcilers.addressmap.poolpictures import PoolPicture
from reconcilers.cli.problems import Problem
from reconcilers.spaces.offers import PoolName


def select_pools(pools: Sequence[PoolPicture], names: Collection[str]) -> list[PoolPicture]:
    """Return the pools that names select, in their order; all pools if there is no name.

    Raises:
        Problem: a name selects no pool.
    """
    for name in names:
        if not any(_has_name(pool, name) for pool in pools):
            known = ", ".join(dict.fromkeys(full_name(pool.name) for pool in pools)) or "none"
            raise Problem(f"there is no pool {name!r}; there are: {known}")
    return [pool for pool in pools if not names or any(_has_name(pool, name) for name in names)]


def full_name(pool: PoolName) -> str:
    """Return the name that selects a pool alone: `KIND/NAMESPACE/NAME`."""
    return f"{pool.kind}/{pool.key}"


def _has_name(pool: PoolPicture, name: str) -> bool:
    key = pool.name.key
    plain_names = {key.name, str(key)}
    kind, _, rest = name.partition("/")
    is_of_kind = kind.lower() in {pool.name.kind.lower(), pool.full_kind}
    return name in plain_names or (is_of_kind and rest in plain_names)
