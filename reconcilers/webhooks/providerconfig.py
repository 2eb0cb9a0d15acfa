"""What is refused of ProviderConfigs because of other objects.

    deleted            one that TenantClusters refer to

What is wrong in a spec by itself is in reconcilers/specrules/providerspecs.py.
"""

from collections.abc import Iterable

from allocator.addresses import quote_value
from controller.meta import Key
from reconcilers.api.providerconfig import (
    ProviderConfig,
)
from reconcilers.specrules.verdict import Verdict, forbidden, limit_causes


def review_deletion(old: ProviderConfig, referring: Iterable[Key]) -> Verdict:
    """Validate the deletion of one.

    Args:
        referring: the TenantClusters whose spec names it.
    """
    name = quote_value(old.metadata.name)
    causes = [
        forbidden(
            (), f"cannot delete ProviderConfig {name}: TenantCluster {key} still references it"
        )
        for key in sorted(referring)
    ]
    return Verdict.from_causes(
        limit_causes(
            causes, (), single="TenantCluster references it", several="TenantClusters reference it"
        )
    )
