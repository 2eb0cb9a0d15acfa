"""Clusters that are gone and left allocations behind, and what is still known of them.

Our finalizer keeps a cluster until its addresses are back, but it can go all the same: somebody
takes the finalizer off, or a deletion overtakes it. (kube-apiserver reads an object, decides from
its finalizers how it is to go, asks the webhooks, and then removes what is there by then; so the
answer to the PATCH promises nothing for as long as a request may take.) The tenant may be alive
and use its addresses, so they are taken back as from a cluster that is being deleted. The way into
the tenant is remembered; after a restart its kubeconfig is looked for where it is by default.
"""

from dataclasses import replace

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.meta import Key, ObjectMeta
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation
from reconcilers.api.tenantcluster import TenantCluster, TenantClusterSpec
from reconcilers.api.tenantmachines import Workers

OVERTAKEN_SECONDS = 120.0
"""How long after it was added a finalizer may turn out not to have held: an API server gives up a
request after a minute (--request-timeout), and we need a while to see what became of it."""
_ASSUMED = {names.ANNOTATION_PROJECTION_BEGUN: "unknown"}


class Departed:
    """Remembers clusters that are gone while allocations carry their uid.

    Args:
        clusters: the clusters; those that leave this cache are remembered.
        allocations: says whether anything is left of one.
        clock: says for how long a finalizer may be overtaken.
    """

    def __init__(
        self, clusters: Cache[TenantCluster], allocations: Cache[IPAllocation], clock: Clock
    ) -> None:
        self._clusters = clusters
        self._allocations = allocations
        self._clock = clock
        self._last: dict[str, TenantCluster] = {}
        # When this process gave new clusters our finalizer, by uid.
        self._begun: dict[str, float] = {}
        clusters.subscribe(self._note)

    def begun(self, tenant: TenantCluster) -> None:
        """Note that a cluster which had nothing yet was given our finalizer just now."""
        now = self._clock.monotonic()
        recent = {u: at for u, at in self._begun.items() if now - at < OVERTAKEN_SECONDS}
        self._begun = recent | {tenant.metadata.uid: now}

    def was_overtaken(self, departed: TenantCluster) -> bool:
        """Return whether a deletion may have overtaken the finalizer that this process added.

        Then all that the cluster left was made by us, for it, a moment ago.
        """
        since = self._begun.get(departed.metadata.uid)
        return since is not None and self._clock.monotonic() - since < OVERTAKEN_SECONDS

    def left_by(self, key: Key) -> list[tuple[TenantCluster, list[IPAllocation]]]:
        """Return the clusters of a name that are gone, each with the allocations it left.

        The one whose allocations were written last comes last.
        """
        present = self._clusters.get(key)
        left: dict[str, list[IPAllocation]] = {}
        for allocation in self._allocations.by_index(TENANT_INDEX, str(key)):
            uid = allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID)
            if uid and (present is None or present.metadata.uid != uid):
                left.setdefault(uid, []).append(allocation)
        known = {uid for uid, one in self._last.items() if one.metadata.key == key}
        for uid in known - left.keys():
            del self._last[uid]
        ordered = sorted(left.items(), key=lambda pair: max(a.metadata.revision for a in pair[1]))
        return [(self._known(key, uid), found) for uid, found in ordered]

    def owner(self, allocation: IPAllocation) -> TenantCluster | None:
        """Return what is known of the owner of an allocation; None if it was never seen."""
        uid = allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID)
        return self._known(allocation.spec.tenantClusterRef.key, uid) if uid else None

    def _known(self, key: Key, uid: str) -> TenantCluster:
        """Return a cluster as it was last seen, or as much of it as its name says."""
        meta = ObjectMeta(key.name, key.namespace, uid, annotations=_ASSUMED)
        return self._last.get(uid) or TenantCluster(
            meta, TenantClusterSpec("v0.0.0", Workers(replicas=1))
        )

    def _note(self, change: Change[TenantCluster]) -> None:
        old, new = change.old, change.new
        if old is None or (new is not None and new.metadata.uid == old.metadata.uid):
            return
        if self._allocations.by_index(TENANT_INDEX, str(old.metadata.key)):
            # Whether anything was projected since we saw it last, nobody knows: it is assumed.
            annotations = _ASSUMED | dict(old.metadata.annotations)
            meta = replace(old.metadata, annotations=annotations)
            self._last[old.metadata.uid] = replace(old, metadata=meta)
