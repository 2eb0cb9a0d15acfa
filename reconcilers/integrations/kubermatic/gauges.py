"""The figures of IPAMPools for metrics, for each datacenter.

The *figures* are numbers: addresses in all, in use, free, and clusters that wait.
"""

from collections.abc import Iterator

from reconcilers.integrations.core.gauges import Labels
from reconcilers.integrations.kubermatic.contents import list_contents
from reconcilers.integrations.kubermatic.picture import make_picture
from reconcilers.integrations.kubermatic.reading import KubermaticCaches
from reconcilers.pictures.poolpicture import PoolFigures

METRICS = "butler_kkp_pool"
LABELS: Labels = {
    "pool": lambda figures: figures.name.key.name,
    "datacenter": lambda figures: figures.part,
}


def list_figures(caches: KubermaticCaches) -> Iterator[PoolFigures]:
    """Yield the figures of all datacenters of all pools."""
    return (make_picture(contents).figures for contents in list_contents(caches))
