"""The integrations: the one list that commands, metrics, webhooks and controllers read.

A new integration is a package with a `Platform`, and a line here.
"""

from collections.abc import Collection, Iterator, Sequence

from reconcilers.integrations.clusterapi.platform import ClusterApiPlatform
from reconcilers.integrations.core.platforms import Platform
from reconcilers.integrations.kubermatic.platform import KubermaticPlatform
from reconcilers.integrations.metal3.platform import Metal3Platform
from reconcilers.integrations.vitistack.platform import VitistackPlatform

PLATFORMS: Sequence[Platform] = (
    ClusterApiPlatform(),
    KubermaticPlatform(),
    Metal3Platform(),
    VitistackPlatform(),
)


def list_platforms(names: Collection[str]) -> Iterator[Platform]:
    """Yield the platforms of some integrations.

    Args:
        names: of the integrations.
    """
    return (platform for platform in PLATFORMS if platform.name in names)
