"""Faults of the input of a plan that concern several objects.

A fault is a sentence with its *place*: the file and the line, or the document.

An error does not resolve itself. Errors are pools that contradict themselves, requests that their
pool could never serve, and references to absent objects. So are held ranges that overlap, or lie
outside their pool. A full pool is no error; it is an outcome of the plan.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from allocator import AddressRange, Layout
from controller.meta import Key
from reconcilers.addressing import poolgeometry, requestedranges, statusranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.reading.findings import Findings, Step, parse_path
from reconcilers.cli.reading.manifests import Manifests, ReadManifest
from reconcilers.configuration.settings import Settings
from reconcilers.networkpool.offers import make_layout_offers
from reconcilers.reporting.wording import count_noun
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules import poolspecs, providerspecs, requestspecs, tenantspecs
from reconcilers.specrules.verdict import Verdict, refuse_namespace
from reconcilers.tenantcluster.provider import ProviderUnreadable

_MOST_NAMED_OVERLAPS = 20
"""The most overlaps of one pool that are named one by one; further ones are counted."""


@dataclass(frozen=True, slots=True)
class RangeBefore:
    """A range that an allocation holds in the input."""

    manifest: ReadManifest[IPAllocation]
    range: AddressRange


class Audit:
    """Adds the faults of manifests to findings.

    Args:
        read: the manifests of the input, each valid by itself.
        findings: takes the faults.
        settings: the settings of the controllers.
        spaces: what pools of all kinds hand out.
    """

    def __init__(
        self, read: Manifests, findings: Findings, settings: Settings, spaces: SpaceIndex
    ) -> None:
        self._read = read
        self._findings = findings
        self._settings = settings
        self._spaces = spaces
        self._layouts: dict[Key, tuple[Layout, ...]] = {}

    def run(self) -> None:
        """Add the faults of all manifests to the findings.

        Pools come first: their layouts are noted for the checks of allocations.
        """
        namespaces = self._settings.pool.namespaces
        manifests: Sequence[ReadManifest[Any]] = [*self._read.pools, *self._read.providers]
        for manifest in manifests:
            if refusal := refuse_namespace(manifest.key.namespace, namespaces):
                self._add_causes(manifest, refusal)
        for pool in self._read.pools:
            self._check_pool(pool)
        self._check_pools_for_sharing()
        pools_by_key = {pool.key: pool.object for pool in self._read.pools}
        for allocation in self._read.allocations:
            self._check_allocation(allocation, pools_by_key.get(allocation.object.pool_key))
        holders: dict[Key, list[ReadManifest[IPAllocation]]] = {}
        for allocation in self._read.allocations:
            holders.setdefault(allocation.object.pool_key, []).append(allocation)
        for key, layouts in self._layouts.items():
            self._check_held_ranges(key, layouts, holders.get(key, ()))
        for provider in self._read.providers:
            self._add_causes(provider, providerspecs.review_provider(provider.object))
            self._check_provider(provider, pools_by_key)
        for tenant in self._read.tenants:
            self._add_causes(tenant, tenantspecs.review_tenant(tenant.object))

    def check_references(
        self, find_provider: Callable[[TenantCluster], ProviderConfig | None]
    ) -> None:
        """Add an error for each TenantCluster whose ProviderConfig is absent or unreadable.

        Args:
            find_provider: returns the ProviderConfig of a cluster, None if it is absent; raises
                ProviderUnreadable.
        """
        for manifest in self._read.tenants:
            unreadable = None
            try:
                if find_provider(manifest.object) is not None:
                    continue
            except ProviderUnreadable as error:
                unreadable = error.key
            reference = manifest.object.spec.providerConfigRef
            if reference is None and unreadable is not None:
                absent = self._describe_absent("ProviderConfig", unreadable)
                problem = f"names no ProviderConfig, and the default may be {absent}"
            elif reference is None:
                problem = "names no ProviderConfig, and the input has none that is the default"
            else:
                key = Key(reference.namespace or self._settings.namespace, reference.name)
                problem = f"names {self._describe_absent('ProviderConfig', key)}"
            self._add_error(manifest, ("spec", "providerConfigRef"), problem)

    def _add_error(
        self, manifest: ReadManifest[Any], path: tuple[Step, ...], problem: str
    ) -> None:
        """Add an error about a field of an object."""
        self._findings.add_error(manifest.raw.at(path), manifest.raw.build_sentence(path, problem))

    def _add_warning(
        self, manifest: ReadManifest[Any], path: tuple[Step, ...], problem: str
    ) -> None:
        """Add a warning about a field of an object."""
        self._findings.add_warning(
            manifest.raw.at(path), manifest.raw.build_sentence(path, problem)
        )

    def _add_causes(self, manifest: ReadManifest[Any], verdict: Verdict) -> None:
        """Add each cause of a verdict as an error: a webhook would refuse the object for it."""
        for cause in verdict.causes:
            self._add_error(manifest, parse_path(cause.field), cause.message)

    def _describe_absent(self, kind: str, key: Key) -> str:
        """Return the name of an object, and why the plan lacks it: it is absent, or has errors."""
        if (kind, key) in self._read.refused:
            return f"{kind} {key}, which is in the input but wrong, see above"
        return f"{kind} {key}, which is not in the input"

    def _check_pool(self, manifest: ReadManifest[NetworkPool]) -> None:
        """Add the faults of a pool; without faults, note its layouts and add its warnings."""
        spec, limit = manifest.object.spec, self._settings.pool.max_addresses
        faults = poolspecs.find_pool_faults(spec, limit)
        for fault in faults:
            self._add_error(manifest, fault.path, fault.message)
        if faults:
            return  # the pool has no valid layout to warn about or to compare with
        layouts = self._layouts[manifest.key] = poolgeometry.parse_layouts(spec, limit)
        for warning in poolspecs.list_pool_warnings(spec, layouts):
            self._add_warning(manifest, warning.path, warning.message)

    def _check_pools_for_sharing(self) -> None:
        """Add a warning for each block of a pool that shares addresses with other pools.

        Sharing is right for separate sites and behind NAT, and else a mistake.
        """
        for manifest in self._read.pools:
            layouts = self._layouts.get(manifest.key, ())
            # Not strict, because a pool with faults has blocks and no layouts.
            for (block_path, _), layout in zip(
                poolspecs.list_blocks(manifest.object.spec), layouts, strict=False
            ):
                offers = make_layout_offers(manifest.object, [layout])
                if sentence := self._spaces.find_sharing(offers).sentence:
                    self._add_warning(manifest, (*block_path, "cidr"), sentence)

    def _check_allocation(
        self, manifest: ReadManifest[IPAllocation], pool: NetworkPool | None
    ) -> None:
        """Add the faults of an allocation: its pool, its spec, its range, its size.

        The size of an allocation with a range is not checked, because it is served already.

        Args:
            pool: the pool that the allocation names; None if the input has no such pool.
        """
        allocation = manifest.object
        if pool is None:
            problem = f"names {self._describe_absent('NetworkPool', allocation.pool_key)}"
            self._add_error(manifest, ("spec", "poolRef", "name"), problem)
        self._add_causes(manifest, requestspecs.review_request(allocation))
        self._check_range(manifest)
        layouts = self._layouts.get(allocation.pool_key)
        if pool is None or layouts is None or statusranges.find_held_range(allocation) is not None:
            return
        count = requestedranges.count_requested(allocation, pool)
        impossible = requestspecs.find_impossibility(allocation, count, pool=pool, layouts=layouts)
        if impossible is None:
            return
        # A request that is too large may fit after an edit of the pool, so that is a warning. A
        # pinned address outside the pool stays outside.
        add_finding = self._add_error if allocation.spec.is_pinned else self._add_warning
        add_finding(manifest, impossible.path, impossible.message)

    def _check_range(self, manifest: ReadManifest[IPAllocation]) -> None:
        """Add an error if the status of an allocation has a range that cannot be parsed.

        Such an allocation counts as one without a range.
        """
        status = manifest.object.status
        written = status.startAddress or status.endAddress or status.cidr
        if written and statusranges.find_held_range(manifest.object) is None:
            range_text = status.cidr or f"{status.startAddress}-{status.endAddress}"
            problem = f"{range_text!r} is not a range of addresses; it is ignored"
            self._add_error(manifest, ("status", "startAddress"), problem)

    def _check_held_ranges(
        self,
        key: Key,
        layouts: Sequence[Layout],
        allocations: Sequence[ReadManifest[IPAllocation]],
    ) -> None:
        """Add errors about held ranges that lie outside the pool or overlap.

        Args:
            key: of the pool.
            layouts: the parsed blocks of the pool.
            allocations: the allocations that name the pool.
        """
        held_ranges = sorted(
            (
                RangeBefore(manifest, range_)
                for manifest in allocations
                for range_ in statusranges.list_held_ranges(manifest.object)
            ),
            key=lambda holding: (holding.range.family, holding.range.first, holding.range.last),
        )
        for holding in held_ranges:
            # A range must lie in the pool's ranges, and hold no reserved address.
            if not any(layout.can_ever_pin(holding.range) for layout in layouts):
                problem = (
                    f"{holding.range.text} lies outside what NetworkPool {key} may hand out; it is"
                    " kept, as ranges are never taken away"
                )
                self._add_error(holding.manifest, ("status", "startAddress"), problem)
        overlaps = list(_find_overlaps(held_ranges))
        for holding, earlier in overlaps[:_MOST_NAMED_OVERLAPS]:
            problem = (
                f"{holding.range.text} overlaps {earlier.range.text} of IPAllocation"
                f" {earlier.manifest.key}; both are kept"
            )
            self._add_error(holding.manifest, ("status", "startAddress"), problem)
        if len(overlaps) > _MOST_NAMED_OVERLAPS:
            more = len(overlaps) - _MOST_NAMED_OVERLAPS
            sentence = count_noun(
                more, "more allocation overlaps others", "more allocations overlap others"
            )
            self._findings.add_error(f"NetworkPool {key}", sentence)

    def _check_provider(
        self, manifest: ReadManifest[ProviderConfig], pools: dict[Key, NetworkPool]
    ) -> None:
        """Add a warning for each pool that a ProviderConfig names and the input lacks."""
        network = manifest.object.spec.networking
        if network.mode != IPAM:
            return  # its pools are not used
        for name in network.list_pools_in_order():
            key = Key(manifest.key.namespace, name)
            if key not in pools:
                problem = f"names {self._describe_absent('NetworkPool', key)}; it is skipped"
                self._add_warning(manifest, ("spec", "network", "poolRefs"), problem)


def _find_overlaps(
    held_ranges: Sequence[RangeBefore],
) -> Iterator[tuple[RangeBefore, RangeBefore]]:
    """Yield each range that overlaps an earlier range, with the earlier range that ends last.

    Args:
        held_ranges: sorted by family and first address.
    """
    furthest: RangeBefore | None = None
    for holding in held_ranges:
        if furthest is not None and holding.range.overlaps(furthest.range):
            yield holding, furthest
        if furthest is None or holding.range.last > furthest.range.last:
            furthest = holding
