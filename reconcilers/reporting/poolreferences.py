"""NetworkPools that a ProviderConfig names and that are absent or unreadable.

Functions find their names, and describe them in sentences for conditions.
"""

from collections.abc import Callable, Container, Sequence

from controller.meta import Key
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig


def find_absent_pools(
    provider: ProviderConfig, find: Callable[[Key], NetworkPool | None]
) -> tuple[str, ...]:
    """Return the names of pools of a ProviderConfig that do not exist.

    Args:
        find: returns a NetworkPool, or None if it does not exist.
    """
    namespace = provider.metadata.namespace
    names = provider.spec.networking.list_pools_in_order()
    return tuple(name for name in names if find(Key(namespace, name)) is None)


def describe_absent_pools(provider: ProviderConfig, absent: Sequence[str]) -> str:
    """Return a sentence about absent pools and the ProviderConfig that names them."""
    keys = ", ".join(str(Key(provider.metadata.namespace, name)) for name in absent)
    several = len(absent) > 1
    pools = f"NetworkPools {keys}, which do" if several else f"NetworkPool {keys}, which does"
    return f"ProviderConfig {provider.metadata.key} names {pools} not exist"


def find_unreadable_pools(provider: ProviderConfig, unreadable: Container[Key]) -> tuple[str, ...]:
    """Return the names of pools of a ProviderConfig that cannot be read.

    Args:
        unreadable: the NetworkPools that cannot be decoded.
    """
    namespace = provider.metadata.namespace
    names = provider.spec.networking.list_pools_in_order()
    return tuple(name for name in names if Key(namespace, name) in unreadable)


def describe_unreadable_pools(provider: ProviderConfig, names: Sequence[str]) -> str:
    """Return a sentence for each unreadable pool: its key, and what to do; joined by "; "."""
    namespace = provider.metadata.namespace
    return "; ".join(describe_unreadable_pool(Key(namespace, name)) for name in names)


def describe_unreadable_pool(pool: Key) -> str:
    """Return a sentence about one unreadable pool: its key, and what to do."""
    return f"NetworkPool {pool} cannot be read; correct or delete it"
