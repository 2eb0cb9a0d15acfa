"""What is wrong in the spec of a TenantCluster: a pool, its families, a selector of Services.

The CRD rejects the same faults.
"""

import re
from collections.abc import Iterator

from allocator import AddressRange, read_range
from controller.errors import Cause
from reconcilers.api.ipallocation import (
    DISTINCT_FAMILIES,
    POLICY_OF_TWO_FAMILIES,
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
)
from reconcilers.api.tenantaddons import (
    CILIUM,
    DOMAIN_MAX,
    IN,
    LABEL_KEY,
    LABEL_VALUE,
    NOT_IN,
    OPERATORS,
    VALUES_FIT_OPERATOR,
    SelectorExpression,
    ServiceSelector,
)
from reconcilers.api.tenantcluster import Networking, TenantCluster
from reconcilers.specrules.verdict import Path, Verdict, build_invalid_cause, format_path

NETWORKING: Path = ("spec", "networking")
SELECTOR: Path = ("spec", "addons", "loadBalancer", "cilium", "serviceSelector")
KEY_FORM = "a key is a name of at most 63 characters, with a DNS subdomain and / before it or not"
VALUE_FORM = (
    "a value has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter"
    " or a digit"
)
MANUAL_POOL: Path = (*NETWORKING, "loadBalancerPool")


def review_tenant(tenant: TenantCluster) -> Verdict:
    """Return the verdict on the spec of a TenantCluster by itself."""
    pool = parse_manual_pool(tenant)
    # `parse_manual_pool` returns a sentence if the pool cannot be parsed.
    causes = [build_invalid_cause(MANUAL_POOL, pool)] if isinstance(pool, str) else []
    causes += _find_family_faults(tenant.networking)
    causes += _find_selector_faults(tenant)
    return Verdict.from_causes(causes, _list_selector_warnings(tenant))


def _find_selector(tenant: TenantCluster) -> ServiceSelector | None:
    """Return the selector of Services in the spec; None if the spec has none.

    Only Cilium uses the selector. It is returned for clusters with another load balancer, too.
    """
    addon = tenant.spec.addons.loadBalancer if tenant.spec.addons is not None else None
    return addon.cilium.serviceSelector if addon is not None and addon.cilium is not None else None


def _find_selector_faults(tenant: TenantCluster) -> Iterator[Cause]:
    """Yield the causes for labels and terms of a selector that Cilium would reject."""
    selector = _find_selector(tenant)
    if selector is None:
        return
    for key, value in selector.matchLabels.items():
        path: Path = (*SELECTOR, "matchLabels")
        if not _is_key(key):
            yield build_invalid_cause(path, f"{key!r} is no label key; {KEY_FORM}")
        if not _is_value(value):
            yield build_invalid_cause((*path, key), f"{value!r} is no label value; {VALUE_FORM}")
    for number, term in enumerate(selector.matchExpressions):
        yield from _find_term_faults(term, (*SELECTOR, "matchExpressions", number))


def _find_term_faults(term: SelectorExpression, path: Path) -> Iterator[Cause]:
    """Yield the causes for a term of a selector: its key, its operator, its values.

    Args:
        term: one of `matchExpressions`.
        path: the field of the term.
    """
    if not _is_key(term.key):
        yield build_invalid_cause((*path, "key"), f"{term.key!r} is no label key; {KEY_FORM}")
    if term.operator not in OPERATORS:
        operators = ", ".join(OPERATORS)
        yield build_invalid_cause(
            (*path, "operator"), f"{term.operator!r} is not one of {operators}"
        )
    elif (term.operator in {IN, NOT_IN}) != bool(term.values):
        yield build_invalid_cause(
            (*path, "values"), f"{term.operator}: {VALUES_FIT_OPERATOR.message}"
        )
    for number, value in enumerate(term.values):
        if not _is_value(value):
            message = f"{value!r} is no label value; {VALUE_FORM}"
            yield build_invalid_cause((*path, "values", number), message)


def _list_selector_warnings(tenant: TenantCluster) -> Iterator[str]:
    """Yield warnings about a selector that has no effect, or that can select no Service."""
    selector = _find_selector(tenant)
    if selector is None:
        return
    where = format_path(SELECTOR)
    if tenant.load_balancer_provider != CILIUM:
        yield (
            f"{where}: ignored, as spec.addons.loadBalancer.provider is"
            f" {tenant.load_balancer_provider}"
        )
    elif selector.is_empty:
        yield f"{where}: selects all Services, as it has no terms; remove it, or add terms"
    elif key := selector.find_contradiction():
        yield f"{where}: selects no Service, as its terms about {key} contradict each other"


def _is_key(key: str) -> bool:
    """Return whether a text is a label key: a name, or a DNS subdomain, `/` and a name."""
    domain, slash, _ = key.rpartition("/")
    # A slash needs a domain before it.
    return (
        re.fullmatch(LABEL_KEY, key) is not None
        and len(domain) <= DOMAIN_MAX
        and (bool(domain) or not slash)
    )


def _is_value(value: str) -> bool:
    """Return whether a text is a label value."""
    return re.fullmatch(LABEL_VALUE, value) is not None


def _find_family_faults(networking: Networking) -> Iterator[Cause]:
    """Yield a cause if a family is listed twice, or two families contradict the policy."""
    dual = networking.ipFamilyPolicy in {PREFER_DUAL_STACK, REQUIRE_DUAL_STACK}
    families = networking.ipFamilies
    if len(set(families)) < len(families):
        yield build_invalid_cause((*NETWORKING, "ipFamilies"), DISTINCT_FAMILIES.message)
    elif len(families) > 1 and not dual:
        yield build_invalid_cause((*NETWORKING, "ipFamilyPolicy"), POLICY_OF_TWO_FAMILIES.message)


def parse_manual_pool(tenant: TenantCluster) -> AddressRange | str | None:
    """Return the load-balancer pool that a user wrote into the spec.

    Return None if the spec has no such pool. If the pool cannot be parsed, return a sentence that
    says why.
    """
    manual = tenant.networking.loadBalancerPool
    return None if manual is None else read_range(manual.start, manual.end)
