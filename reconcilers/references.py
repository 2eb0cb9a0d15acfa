"""What objects name that does not exist, in the words of conditions and findings."""

from collections.abc import Callable, Sequence

from controller.meta import Key
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig


def absent_pools(
    provider: ProviderConfig, find: Callable[[Key], NetworkPool | None]
) -> tuple[str, ...]:
    """Return the names of pools of a ProviderConfig that do not exist.

    Args:
        provider: the ProviderConfig.
        find: returns a NetworkPool, or None if it does not exist.
    """
    namespace = provider.metadata.namespace
    names = provider.spec.networking.pools_in_order()
    return tuple(name for name in names if find(Key(namespace, name)) is None)


def describe_absent_pools(provider: ProviderConfig, absent: Sequence[str]) -> str:
    """Return a sentence that names pools that do not exist, and who names them."""
    keys = ", ".join(str(Key(provider.metadata.namespace, name)) for name in absent)
    several = len(absent) > 1
    pools = f"NetworkPools {keys}, which do" if several else f"NetworkPool {keys}, which does"
    return f"ProviderConfig {provider.metadata.key} names {pools} not exist"
