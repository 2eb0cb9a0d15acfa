"""The kinds of MetalLB, with the fields that are read or written here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.meta import MetadataOnly, ObjectMeta, TracedMeta
from controller.resource import Resource


@dataclass(frozen=True, slots=True)
class AddressPoolSpec:
    """The spec of a MetalLB IPAddressPool. In our pool, we own every field of it."""

    addresses: tuple[str, ...] = ()
    autoAssign: bool = True
    avoidBuggyIPs: bool = False
    serviceAllocation: Any = None

    @property
    def edited_fields(self) -> tuple[str, ...]:
        """The names of the fields, apart from the addresses, that differ from our values."""
        our_values = {"autoAssign": True, "avoidBuggyIPs": False, "serviceAllocation": None}
        return tuple(name for name, value in our_values.items() if getattr(self, name) != value)


@dataclass(frozen=True, slots=True)
class AddressPoolStatus:
    """How many addresses MetalLB has found in the pool; written by 0.15 and newer."""

    assignedIPv4: int = 0
    assignedIPv6: int = 0
    availableIPv4: int = 0
    availableIPv6: int = 0


@dataclass(frozen=True, slots=True)
class IPAddressPool:
    """MetalLB's IPAddressPool in a tenant."""

    metadata: TracedMeta
    spec: AddressPoolSpec = field(default_factory=AddressPoolSpec)
    status: AddressPoolStatus | None = None


@dataclass(frozen=True, slots=True)
class ConfigurationStateStatus:
    """What a part of MetalLB says about the configuration as it is stored."""

    result: str = ""
    errorSummary: str = ""


@dataclass(frozen=True, slots=True)
class ConfigurationState:
    """MetalLB's ConfigurationState; written by 0.15.3 and newer, one for each of its parts."""

    metadata: ObjectMeta
    status: ConfigurationStateStatus = field(default_factory=ConfigurationStateStatus)


@dataclass(frozen=True, slots=True)
class AdvertisementSpec:
    """The spec of a MetalLB L2Advertisement: which pools and Services it announces, and where.

    `serviceSelectors` is from MetalLB 0.16.0 on, `preferredNodeSelectors` from 0.16.2 on.
    """

    ipAddressPools: tuple[str, ...] = ()
    ipAddressPoolSelectors: tuple[Mapping[str, Any], ...] = ()
    interfaces: tuple[str, ...] = ()
    nodeSelectors: tuple[Mapping[str, Any], ...] = ()
    serviceSelectors: tuple[Mapping[str, Any], ...] = ()
    preferredNodeSelectors: tuple[Mapping[str, Any], ...] = ()

    def announces(self, pool: str) -> bool:
        """Return whether it announces `pool` by name, or all pools.

        It announces all pools if it has neither names nor selectors. Selectors are not evaluated.
        """
        if self.ipAddressPools or self.ipAddressPoolSelectors:
            return pool in self.ipAddressPools
        return True


@dataclass(frozen=True, slots=True)
class L2Advertisement:
    """MetalLB's L2Advertisement in a tenant."""

    metadata: TracedMeta
    spec: AdvertisementSpec = field(default_factory=AdvertisementSpec)


IP_ADDRESS_POOL = Resource(
    "metallb.io", "v1beta1", "IPAddressPool", "ipaddresspools", IPAddressPool
)


L2_ADVERTISEMENT = Resource(
    "metallb.io", "v1beta1", "L2Advertisement", "l2advertisements", L2Advertisement
)


CONFIGURATION_STATE = Resource(
    "metallb.io", "v1beta1", "ConfigurationState", "configurationstates", ConfigurationState
)


SERVICE_BGP_STATUS = Resource(
    "metallb.io", "v1beta1", "ServiceBGPStatus", "servicebgpstatuses", MetadataOnly
)
"""Only whether the kind is served matters: it is from MetalLB 0.15 on."""
