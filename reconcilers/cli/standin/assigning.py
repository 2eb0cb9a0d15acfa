"""Which Service has which address: a function of the configuration and the Services.

An address that a Service has and may keep it keeps. One that its pools no longer hold is taken
away, and another given at once if there is one. Within a pool the first free address counts, in
the order of the pool's entries; among pools MetalLB's choice is random, the stand-in's is by name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from reconcilers.api.resources import Service
from reconcilers.cli.standin.api import WANTED_ADDRESSES, WANTED_POOL, addresses, asks
from reconcilers.cli.standin.config import IPV4, Address, Pool, family

PREFER_DUAL_STACK = "PreferDualStack"


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one Service should have.

    Args:
        service: the Service as it was read.
        addresses: what its status should show.
        pool: where they are from; empty if there are none.
        problem: why it wants addresses and has none; empty if all is well.
    """

    service: Service
    addresses: tuple[str, ...] = ()
    pool: str = ""
    problem: str = ""


class CannotServe(Exception):
    """A Service's request cannot be met now; the message says why."""


def assignments(services: Iterable[Service], pools: Sequence[Pool]) -> list[Assignment]:
    """Return what every Service that is ours should have, oldest first."""
    ours = sorted((one for one in services if is_ours(one)), key=_age)
    taken: set[Address] = set()
    kept: dict[str, Assignment] = {}
    for service in ours:
        found = _kept(service, pools, taken)
        if found is not None:
            kept[service.metadata.uid] = found
            taken.update(ip_address(text) for text in found.addresses)
    return [kept.get(one.metadata.uid) or _given(one, pools, taken) for one in ours]


def is_ours(service: Service) -> bool:
    """Return whether the Service asks for a load balancer and for no particular other one."""
    return service.spec.type == "LoadBalancer" and service.spec.loadBalancerClass is None


def _age(service: Service) -> tuple[str, str]:
    created = service.metadata.creationTimestamp
    return (created.isoformat() if created else "", str(service.metadata.key))


def _kept(service: Service, pools: Sequence[Pool], taken: set[Address]) -> Assignment | None:
    """Return the assignment that a Service's status shows; None if it may not keep it."""
    shown = _parsed(addresses(service))
    if not shown or taken.intersection(shown):
        return None
    pool = next((one for one in pools if all(address in one for address in shown)), None)
    if pool is None or asks(service, WANTED_POOL) not in ("", pool.name):
        return None
    wanted = _wanted(service)
    if wanted is None or (wanted and set(wanted) != set(shown)):
        return None
    return Assignment(service, addresses(service), pool.name)


def _parsed(texts: Sequence[str]) -> list[Address]:
    """Return the addresses; none if one is no address."""
    try:
        return [ip_address(text) for text in texts]
    except ValueError:
        return []


def _wanted(service: Service) -> list[Address] | None:
    """Return the addresses that the Service asks for by name; None if it asks for nonsense."""
    text = asks(service, WANTED_ADDRESSES) or service.spec.loadBalancerIP
    if not text:
        return []
    return _parsed([part.strip() for part in text.split(",")]) or None


def _given(service: Service, pools: Sequence[Pool], taken: set[Address]) -> Assignment:
    try:
        pool, found = _chosen(service, pools, taken)
    except CannotServe as why:
        return Assignment(service, problem=f'Failed to allocate IP for "{_name(service)}": {why}')
    taken.update(found)
    return Assignment(service, tuple(str(address) for address in found), pool.name)


def _name(service: Service) -> str:
    return str(service.metadata.key)


def _chosen(
    service: Service, pools: Sequence[Pool], taken: set[Address]
) -> tuple[Pool, list[Address]]:
    candidates = _candidates(service, pools)
    wanted = _wanted(service)
    if wanted is None:
        raise CannotServe("the requested addresses are none")
    for pool in candidates:
        if wanted:
            if all(address in pool and address not in taken for address in wanted):
                return pool, wanted
        elif found := _free(service, pool, taken):
            return pool, found
    if wanted:
        listed = ", ".join(map(str, wanted))
        raise CannotServe(f"[{listed}] is not allowed in config, or in use")
    raise CannotServe("no available IPs")


def _candidates(service: Service, pools: Sequence[Pool]) -> list[Pool]:
    name = asks(service, WANTED_POOL)
    if name:
        if found := [pool for pool in pools if pool.name == name]:
            return found
        raise CannotServe(f'unknown pool "{name}"')
    by_address = bool(asks(service, WANTED_ADDRESSES) or service.spec.loadBalancerIP)
    return [pool for pool in pools if pool.auto_assign or by_address]


def _free(service: Service, pool: Pool, taken: set[Address]) -> list[Address]:
    """Return the first free address of each family the Service has; none if one is missing."""
    families = service.spec.ipFamilies or (IPV4,)
    found = [
        address
        for wanted in families
        if (address := next((a for a in pool.addresses(wanted) if a not in taken), None))
    ]
    partly = service.spec.ipFamilyPolicy == PREFER_DUAL_STACK
    return found if len(found) == len(families) or partly else []


def used(pool: Pool, found: Iterable[Assignment], wanted_family: str) -> int:
    """Return how many addresses of a family of `pool` are assigned."""
    return sum(
        family(ip_address(text)) == wanted_family
        for one in found
        if one.pool == pool.name
        for text in one.addresses
    )
