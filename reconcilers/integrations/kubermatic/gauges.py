"""The figures of IPAMPools for metrics, for each datacenter.

The *figures* are numbers: addresses in all, in use, free, and clusters that wait.
"""

from collections.abc import Iterator

from reconcilers.integrations.core.gauges import Labels
from reconcilers.integrations.kubermatic.contents import contents_of
from reconcilers.integrations.kubermatic.picture import picture_of
from reconcilers.integrations.kubermatic.reading import KubermaticCaches
from reconcilers.pictures.poolpicture import PoolFigures

METRICS = "butler_kkp_pool"
LABELS: Labels = {
    "pool": lambda figures: figures.name.key.name,
    "datacenter": lambda figures: figures.part,
}


def list_figures(caches: KubermaticCaches) -> Iterator[PoolFigures]:
    """Yield the figures of all datacenters of all pools."""
    return (picture_of(contents).figures for contents in contents_of(caches))
