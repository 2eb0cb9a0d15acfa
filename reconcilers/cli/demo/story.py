"""The story: its chapters in order, and who has an API server of its own in it."""

from reconcilers.cli.demo.audit import Witness
from reconcilers.cli.demo.cast import BARE, SHOP, WEB
from reconcilers.cli.demo.chapters import admission, ending, pools, tenants, troubles
from reconcilers.cli.demo.farewell import Farewell
from reconcilers.cli.demo.step import Step
from reconcilers.cli.local.platform import Tenant

TENANTS = (
    Tenant("tenant-web", WEB),
    Tenant("tenant-shop", SHOP),
    Tenant("tenant-bare", BARE, has_metallb=False),
)


def story(witness: Witness, farewell: Farewell, silent_url: str) -> list[Step]:
    """Return the steps, in order.

    Args:
        witness: has seen every allocation.
        farewell: looks into tenants when ranges are released.
        silent_url: of an API server that never answers.
    """
    return [
        *tenants.beginning(),
        *tenants.static_tenant(),
        *tenants.elastic_tenant(),
        *pools.exhaustion(),
        *pools.ranges_by_hand(),
        *pools.waiting(),
        *admission.refusals(),
        *troubles.tenants_in_trouble(silent_url),
        *troubles.lost_leader(),
        *ending.tenants_go(farewell),
        *ending.nothing_remains(witness),
    ]
