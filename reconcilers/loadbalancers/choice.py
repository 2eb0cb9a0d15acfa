"""Which load balancer a tenant has: the one that its TenantCluster names.

It is never guessed from what the tenant serves: a tenant may serve the kinds of several backends,
and two that work on one tenant take addresses from each other's Services.
"""

from collections.abc import Iterator, Mapping

from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.loadbalancers.port import LoadBalancerKind
from reconcilers.loadbalancers.unsupported import UnsupportedKind


class LoadBalancerKinds:
    """The backends of this process; a backend is one kind of load balancer.

    Args:
        by_provider: the backends, by the value of spec.addons.loadBalancer.provider that names
            each of them.
    """

    def __init__(self, by_provider: Mapping[str, LoadBalancerKind]) -> None:
        self._by_provider = dict(by_provider)

    def __iter__(self) -> Iterator[LoadBalancerKind]:
        """Iterate over the backends of this process."""
        return iter(self._by_provider.values())

    def items(self) -> Iterator[tuple[str, LoadBalancerKind]]:
        """Yield each provider with its load balancer."""
        yield from self._by_provider.items()

    def find_chosen(self, tenant: TenantCluster) -> LoadBalancerKind:
        """Return the load balancer that a tenant's spec names."""
        return self.find_kind(tenant.load_balancer_provider)

    def find_kind(self, provider: str) -> LoadBalancerKind:
        """Return the load balancer of a provider, as an allocation or a TenantCluster names it.

        For a provider that this process does not know, return UnsupportedKind: it writes nothing
        and proves no release.
        """
        kind = self._by_provider.get(provider)
        return UnsupportedKind(provider, self._by_provider) if kind is None else kind

    def is_known(self, provider: str) -> bool:
        """Return whether this process has the load balancer of a provider."""
        return provider in self._by_provider
