"""What we keep in the MetalLB of a tenant: one IPAddressPool and one L2Advertisement."""

from reconcilers.loadbalancers.corrections import Corrections


class MetalLBKeptState(Corrections):
    """What we keep in one tenant, as far as this process knows.

    Attributes:
        entries: the pool's addresses when it was last seen to be right; None if it was not yet.
        advertised: whether the L2Advertisement was.
        own_advertisement: its uid if it is ours, also if others take our annotations off.
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries: tuple[str, ...] | None = None
        self.advertised = False
        self.own_advertisement = ""

    def clear(self) -> None:
        """Note that nothing of ours is kept there from now on."""
        self.entries, self.advertised, self.own_advertisement = None, False, ""
