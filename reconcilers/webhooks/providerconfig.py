"""Rules for writes of ProviderConfigs that depend on other objects.

    deleted   refused while TenantClusters refer to the ProviderConfig

The rules about a spec by itself are in reconcilers/specrules/providerspecs.py.
"""

from collections.abc import Iterable

from allocator.addresses import quote_value
from controller.meta import Key
from reconcilers.api.providerconfig import (
    ProviderConfig,
)
from reconcilers.specrules.verdict import Verdict, build_forbidden_cause, limit_causes


def review_deletion(old: ProviderConfig, referring: Iterable[Key]) -> Verdict:
    """Return the verdict on the deletion of a ProviderConfig.

    It is refused while a TenantCluster refers to the ProviderConfig; each has a cause.

    Args:
        referring: the TenantClusters whose spec names it.
    """
    name = quote_value(old.metadata.name)
    causes = [
        build_forbidden_cause(
            (), f"cannot delete ProviderConfig {name}: TenantCluster {key} still references it"
        )
        for key in sorted(referring)
    ]
    return Verdict.from_causes(
        limit_causes(
            causes, (), single="TenantCluster references it", several="TenantClusters reference it"
        )
    )
