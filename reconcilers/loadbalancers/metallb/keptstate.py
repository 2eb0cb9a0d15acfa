"""Remembers the objects that we keep in the MetalLB of a tenant.

They are one IPAddressPool and one L2Advertisement. The memory distinguishes edits by others from
changes that are still to be written.
"""

from reconcilers.loadbalancers.corrections import Corrections


class MetalLBKeptState(Corrections):
    """The objects that this process keeps in one tenant, and its corrections there.

    Attributes:
        entries: the pool's addresses when the pool was last right; None if it was never right.
        is_advertised: whether the L2Advertisement was right once.
        own_advertisement_uid: the uid of the L2Advertisement if it is ours; it identifies ours
            even if others remove our annotations.
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries: tuple[str, ...] | None = None
        self.is_advertised = False
        self.own_advertisement_uid = ""

    def clear(self) -> None:
        """Note that we no longer keep objects in the tenant."""
        self.entries = None
        self.is_advertised = False
        self.own_advertisement_uid = ""
