"""The figures of IPPools for metrics, computed from the objects in the caches.

The *figures* of a pool are its numbers: addresses in all, in use, free, and claims that wait.
"""

from collections.abc import Iterable

from reconcilers.integrations.core.gauges import Labels
from reconcilers.integrations.metal3.caches import Metal3Caches
from reconcilers.integrations.metal3.contents import list_contents
from reconcilers.integrations.metal3.picture import make_picture
from reconcilers.pictures.poolpicture import PoolFigures

METRICS = "butler_metal3_pool"
LABELS: Labels = {
    "namespace": lambda figures: figures.name.key.namespace,
    "pool": lambda figures: figures.name.key.name,
}


def list_figures(caches: Metal3Caches) -> Iterable[PoolFigures]:
    """Return the figures of all pools."""
    return [make_picture(contents).figures for contents in list_contents(caches)]
