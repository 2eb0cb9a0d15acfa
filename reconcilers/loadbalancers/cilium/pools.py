"""CiliumLoadBalancerIPPools: their contents, and the counts of Cilium's operator.

Sources: the CustomResourceDefinition of Cilium 1.18 to 1.20, and its page "LoadBalancer IP Address
Management". `status.conditions` are counts: a decimal number in the message, of the generation in
observedGeneration. The operator *acknowledges* a pool by counts of the pool's present generation.

A *nonce* is an edit that changes nothing but the generation, so that the operator counts again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from allocator import AddressRange
from controller.meta import TracedMeta
from controller.resource import Resource
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.loadbalancers.ownernotes import read_position
from reconcilers.loadbalancers.port import AllocationName, Offer

IPS_TOTAL = "cilium.io/IPsTotal"
IPS_USED = "cilium.io/IPsUsed"
POOL_CONFLICT = "cilium.io/PoolConflict"
_YES = "Yes"
_LONGEST_NAME = 200
"""How much of an allocation's name its pool's name has: with the uid, it stays below 253."""
_MOST_DIGITS = 40
"""A pool of a /0 of IPv6 has as many addresses as 39 digits say."""


@dataclass(frozen=True, slots=True)
class Block:
    """Addresses of a pool: from `start` to `stop`, or a CIDR; if both are set, the CIDR counts."""

    start: str = ""
    stop: str = ""
    cidr: str = ""

    @property
    def span(self) -> AddressRange | None:
        """The range; None if the operator could not parse the block, and would not act on it.

        Without `stop` it is the single address `start`.
        """
        if self.cidr:
            return addresstexts.parse_cidr_or_span(self.cidr)
        return addresstexts.parse_ends(self.start, self.stop or self.start)


@dataclass(frozen=True, slots=True)
class CiliumPoolSpec:
    """The spec of a pool. In a pool of ours, we own every field of it."""

    blocks: tuple[Block, ...] | None = None
    disabled: bool = False
    allowFirstLastIPs: str | None = None
    serviceSelector: Any = None

    @property
    def edited_fields(self) -> tuple[str, ...]:
        """The names of fields with values that we never write.

        The selector is left out: the caller compares it with the tenant's selector.
        """
        is_our_value = self.allowFirstLastIPs in {None, _YES}
        return () if is_our_value else ("allowFirstLastIPs",)

    @property
    def selector(self) -> Mapping[str, Any]:
        """The selector without empty fields; empty if all Services are selected.

        A tenant may serve another definition of the kind, so the stored selector may be any JSON.
        """
        stored = self.serviceSelector
        if isinstance(stored, Mapping):
            return _drop_empty_fields(stored)
        # Any other value becomes a selector that differs from all of ours, so it is overwritten.
        return {"": stored} if stored else {}


@dataclass(frozen=True, slots=True)
class PoolCondition:
    """A condition of a pool, as Cilium's operator writes it."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    observedGeneration: int = 0


@dataclass(frozen=True, slots=True)
class CiliumPoolStatus:
    """The status of a pool."""

    conditions: tuple[PoolCondition, ...] | None = None


@dataclass(frozen=True, slots=True)
class CiliumPool:
    """A CiliumLoadBalancerIPPool in a tenant."""

    metadata: TracedMeta
    spec: CiliumPoolSpec = field(default_factory=CiliumPoolSpec)
    status: CiliumPoolStatus | None = None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks; an absent list is empty."""
        return self.spec.blocks or ()

    @property
    def generation(self) -> int:
        """The generation of its spec."""
        return self.metadata.generation or 0


def _drop_empty_fields(selector: Mapping[str, Any]) -> dict[str, Any]:
    """Return a selector without empty fields, also in its expressions.

    The API server stores empty fields as others wrote them. `ServiceSelector.body` has no empty
    fields, so a selector is compared with it only after its own empty fields are dropped.
    """
    fields = {name: value for name, value in selector.items() if value}
    expressions = fields.get("matchExpressions")
    if isinstance(expressions, Sequence) and not isinstance(expressions, str):
        fields["matchExpressions"] = [
            {name: value for name, value in expression.items() if value}
            if isinstance(expression, Mapping)
            else expression
            for expression in expressions
        ]
    return fields


def _make_resource(version: str) -> Resource[CiliumPool]:
    """Return the kind of pools in one version of Cilium's API."""
    kind, plural = "CiliumLoadBalancerIPPool", "ciliumloadbalancerippools"
    return Resource("cilium.io", version, kind, plural, CiliumPool, namespaced=False)


CILIUM_POOL = _make_resource("v2")
CILIUM_POOL_ALPHA = _make_resource("v2alpha1")
"""The version of Cilium before 1.18; the same schema."""


def make_pool_name(allocation: AllocationName) -> str:
    """Return the name of the pool of an allocation; no other allocation ever uses that name.

    The name contains the uid because the operator may write the status of a deleted pool to a new
    pool of the same name.
    """
    return f"{allocation.name[:_LONGEST_NAME]}-{allocation.uid}"


def is_ours(pool: CiliumPool) -> bool:
    """Return whether we made this pool: our own annotation says so."""
    return names.ANNOTATION_PROJECTION_BASIS in pool.metadata.annotations


def read_allocation_uid(pool: CiliumPool) -> str:
    """Return the uid of the allocation that a pool belongs to; empty without that annotation."""
    return pool.metadata.annotations.get(names.ANNOTATION_ALLOCATION_UID, "")


def read_basis(pool: CiliumPool) -> int:
    """Return the cache position that the pool was computed from; 0 without that annotation."""
    return read_position(pool, names.ANNOTATION_PROJECTION_BASIS)


def make_offer(pool: CiliumPool) -> Offer:
    """Return a pool as an Offer, the form in which all backends show their objects."""
    return Offer(
        metadata=pool.metadata,
        kind=CILIUM_POOL.kind,
        entries=tuple(map(_format_block, pool.blocks)),
        is_made_by_us=is_ours(pool),
        basis=read_basis(pool),
        edited_fields=pool.spec.edited_fields,
        selector=pool.spec.selector,
    )


def _format_block(block: Block) -> str:
    """Return a block as text, as an offer names it: `start-end`.

    A block that cannot be parsed has no span. Its text is returned as it stands in the pool.
    """
    span = block.span
    if span is None:
        return block.cidr or f"{block.start}-{block.stop}"
    return f"{span.start_text}-{span.end_text}"


def make_blocks(spans: Iterable[AddressRange]) -> list[dict[str, str]]:
    """Return the value of `spec.blocks` for these ranges, as JSON."""
    return [{"start": span.start_text, "stop": span.end_text} for span in spans]


def make_annotations(basis: int, owner: Mapping[str, str], uid: str) -> dict[str, str]:
    """Return the annotations of the pool of an allocation.

    Args:
        basis: the cache position that the pool's content was computed from.
        owner: annotations that name the TenantCluster that the pool is for.
        uid: of the allocation.
    """
    return {
        names.ANNOTATION_PROJECTION_BASIS: str(basis),
        **owner,
        names.ANNOTATION_ALLOCATION_UID: uid,
    }


def has_exactly(pool: CiliumPool, spans: Sequence[AddressRange]) -> bool:
    """Return whether a pool has exactly these ranges, in any order, and no edited field.

    The selector is not compared.
    """
    blocks = [block.span for block in pool.blocks]
    return not pool.spec.edited_fields and None not in blocks and set(blocks) == set(spans)


def overlaps_any(pool: CiliumPool, spans: Sequence[AddressRange]) -> bool:
    """Return whether a block of a pool has an address of the ranges.

    A block that cannot be parsed is left out: the operator does not act on it either.
    """
    blocks = (block.span for block in pool.blocks)
    return any(block.overlaps(span) for block in blocks if block is not None for span in spans)


def find_condition(pool: CiliumPool, condition_type: str) -> PoolCondition | None:
    """Return the condition of a type in a pool's status; None if there is no such condition."""
    status = pool.status or CiliumPoolStatus()
    conditions = status.conditions or ()
    return next((entry for entry in conditions if entry.type == condition_type), None)


def read_count(pool: CiliumPool, condition_type: str) -> int | None:
    """Return a count of the pool's present generation; None if the operator has not counted it.

    None also if the count is no number.
    A count of a lower generation is old. So is a count of a higher one: the status of a deleted
    pool can land on a new pool of its name.

    Args:
        condition_type: IPS_TOTAL or IPS_USED.
    """
    entry = find_condition(pool, condition_type)
    if entry is None or entry.observedGeneration != pool.generation:
        return None
    # The operator writes the number as the message of the condition.
    # A tenant can write any text there, and int() raises for thousands of digits.
    digits = entry.message
    return int(digits) if len(digits) <= _MOST_DIGITS and digits.isdecimal() else None


def is_acknowledged(pool: CiliumPool) -> bool:
    """Return whether the operator has counted the addresses that the pool has now.

    False if a block cannot be parsed: then the number to expect is not known.

    This is a proof only for a generation that this process wrote itself: see release.py.
    """
    spans = [block.span for block in pool.blocks]
    size = sum(span.size for span in spans if span is not None)
    is_readable = None not in spans
    return (
        is_readable
        and read_count(pool, IPS_TOTAL) == size
        and read_count(pool, IPS_USED) is not None
    )


def is_operator_silent(pools: Mapping[str, CiliumPool]) -> bool:
    """Return whether the operator has counted no pool: LB-IPAM is off, or there is no operator."""
    return all(find_condition(pool, IPS_TOTAL) is None for pool in pools.values())


def find_conflict(pool: CiliumPool) -> str:
    """Return the operator's message on another pool that overlaps this one; empty without one.

    The operator does not use a pool with such a conflict. Its observedGeneration is not compared:
    the operator leaves it behind when the pool is edited.
    """
    entry = find_condition(pool, POOL_CONFLICT)
    return entry.message if entry is not None and entry.status == "True" else ""


def choose_nonce(pool: CiliumPool) -> str | None:
    """Return the value of `allowFirstLastIPs` for a nonce: None and Yes by turns.

    None removes the field. Both values mean the same, and have no effect on blocks with start and
    stop. So the edit only raises the generation, which the operator has to acknowledge.
    """
    return None if pool.spec.allowFirstLastIPs == _YES else _YES
