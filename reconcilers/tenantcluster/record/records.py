"""One record for each TenantCluster: everything that this process remembers of it.

A record belongs to one uid. A cluster that is recreated under its name starts with a new record.
Safety needs nothing in a record: after a restart all records are empty, and waits are longer,
never shorter. Facts that have to survive a restart are annotations.

The class of each part is defined beside the code that uses it. A function receives its part alone.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from typing_extensions import override

from controller.meta import Key
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.tenantaccess import TenantAccess, TenantAccesses
from reconcilers.loadbalancers.port import BalancerMemory
from reconcilers.tenantcluster.announcements import AnnouncementMemory
from reconcilers.tenantcluster.elastic.observation import ElasticMemory
from reconcilers.tenantcluster.otherbalancers import OtherBalancersMemory
from reconcilers.tenantcluster.projector import ProjectionMemory
from reconcilers.tenantcluster.record.gate import GateMemory


@dataclass(slots=True)
class TenantRecord:
    """What this process remembers of one TenantCluster.

    The release check uses `access`, `last_seen` and `gate`. The other parts belong to the pass
    over the cluster alone.

    Args:
        key: namespace and name of the cluster.
        uid: uid of the cluster; empty for a cluster that is known by its name alone.
        access: the client of the tenant.
        last_seen: the last state of a cluster that is gone and had allocations then.
        gate: the release check: waits and attempts of ranges that are being released.
        has_leftovers: whether ranges of the cluster were released after the cluster was gone.
        projection: what is written into the tenant.
        elastic: its size, and what its Services wait for.
        installation: the installation of its load balancer there.
        others: the load balancers there that its spec does not name.
        announcements: what announces its addresses.
        named_at: when status.network last named Services (monotonic seconds); None for never.
        deletion_revision: the first resourceVersion that showed the deletion of the cluster.
    """

    key: Key
    uid: str
    access: TenantAccess = field(default_factory=TenantAccess)
    last_seen: TenantCluster | None = None
    gate: GateMemory = field(default_factory=GateMemory)
    has_leftovers: bool = False
    projection: ProjectionMemory = field(default_factory=ProjectionMemory)
    elastic: ElasticMemory = field(default_factory=ElasticMemory)
    installation: BalancerMemory = field(default_factory=BalancerMemory)
    others: OtherBalancersMemory = field(default_factory=OtherBalancersMemory)
    announcements: AnnouncementMemory = field(default_factory=AnnouncementMemory)
    named_at: float | None = None
    deletion_revision: int | None = None

    def end_work(self) -> None:
        """Clear the parts of the pass, because the cluster is gone or now another replica's."""
        self.projection = ProjectionMemory()
        self.elastic = ElasticMemory()
        self.installation = BalancerMemory()
        self.others = OtherBalancersMemory()
        self.announcements = AnnouncementMemory()
        self.named_at = None
        self.deletion_revision = None


class TenantRecords(TenantAccesses):
    """The records of all TenantClusters, by name and uid."""

    def __init__(self) -> None:
        self._records: dict[Key, dict[str, TenantRecord]] = {}

    def __len__(self) -> int:
        """Return the number of records of all clusters."""
        return sum(map(len, self._records.values()))

    def __iter__(self) -> Iterator[TenantRecord]:
        """Iterate over the records of all clusters."""
        for records in self._records.values():
            yield from records.values()

    def get_or_create(self, tenant: TenantCluster) -> TenantRecord:
        """Return the record of a cluster; create it at the first use."""
        return self.get_or_create_by_uid(tenant.metadata.key, tenant.metadata.uid)

    def get_or_create_by_uid(self, key: Key, uid: str) -> TenantRecord:
        """Return the record of the cluster with this name and uid; create it at the first use."""
        records = self._records.setdefault(key, {})
        if uid not in records:
            records[uid] = TenantRecord(key, uid)
        return records[uid]

    def find(self, key: Key, uid: str) -> TenantRecord | None:
        """Return the record of the cluster with this name and uid; None if it has none."""
        return self._records.get(key, {}).get(uid)

    def list_by_name(self, key: Key) -> list[TenantRecord]:
        """Return the records of the clusters of one name."""
        return list(self._records.get(key, {}).values())

    def list_keys(self) -> list[Key]:
        """Return the namespace and name of all clusters that have a record."""
        return list(self._records)

    def retain(self, key: Key, uids: Container[str]) -> list[TenantRecord]:
        """Remove the records of a name, except those with these uids; return the removed records.

        The caller forgets the clients in their `access`.
        """
        removed = [record for record in self.list_by_name(key) if record.uid not in uids]
        for record in removed:
            del self._records[key][record.uid]
        if not self._records.get(key, {}):
            self._records.pop(key, None)
        return removed

    def end_work(self, key: Key) -> None:
        """Clear what the passes over the clusters of a name remember."""
        for record in self.list_by_name(key):
            record.end_work()

    @override
    def get_access(self, tenant: TenantCluster) -> TenantAccess:
        """Return the access to a cluster's tenant; create it, with a record, at the first use."""
        return self.get_or_create(tenant).access

    @override
    def list_accesses(self) -> Iterable[tuple[Key, TenantAccess]]:
        """Return the name and the access of each cluster with a record."""
        return [(record.key, record.access) for record in self]

    @override
    def find_accesses_by_name(self, key: Key) -> Iterable[TenantAccess]:
        """Return the accesses of all clusters of one name: the present one and vanished ones."""
        return [record.access for record in self.list_by_name(key)]
