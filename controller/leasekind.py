"""The Lease kind of coordination.k8s.io/v1, and the settings of an election for one."""

from dataclasses import dataclass, field

from controller.meta import Key, ObjectMeta
from controller.resource import Resource

JITTER = 1.2
"""Those who wait add up to this share of the retry period at random."""


@dataclass(frozen=True, slots=True)
class LeaseSpec:
    """The record; times are RFC 3339 with six decimals, which the server insists on."""

    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    renewTime: str | None = None
    leaseTransitions: int | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease of coordination.k8s.io/v1."""

    metadata: ObjectMeta
    spec: LeaseSpec = field(default_factory=LeaseSpec)


LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", Lease)


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Which lease, as whom, and how fast.

    Args:
        key: the Lease's namespace and name.
        identity: this process; must differ between any two.
        lease_duration: seconds after which others may take a lease that was not renewed.
        renew_deadline: seconds after which a holder that cannot renew gives up.
        retry_period: seconds between attempts.

    Raises:
        ValueError: the times do not leave room for each other.
    """

    key: Key
    identity: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("leader election needs an identity")
        if not self.lease_duration > self.renew_deadline > JITTER * self.retry_period > 0:
            raise ValueError(
                "leader election needs lease duration > renew deadline > 1.2 x retry period > 0,"
                f" not {self.lease_duration} > {self.renew_deadline} > 1.2 x {self.retry_period}"
            )

    @property
    def request_seconds(self) -> float:
        """How long one request may take, so that one that hangs cannot cost the lease."""
        return max(1.0, self.renew_deadline / 2)

    @property
    def ending_seconds(self) -> float:
        """How long work may take to end after the lease was lost, before nobody else can lead."""
        return 0.8 * (self.lease_duration - self.renew_deadline)
