"""What load balancers say of themselves in a service: their class, the addresses they gave.

As ValidateLoadBalancerStatus and validateLoadBalancerClassField do
(k8s.io/kubernetes/pkg/apis/core/validation/validation.go).
"""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from envtest.schema.errors import FieldError, forbidden, invalid, not_supported, required
from envtest.schema.names import qualified_name_errors, subdomain_errors
from envtest.server.objectmeta import Body

_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_MODES = ("Proxy", "VIP")


def class_problems(spec: Body, before: Body) -> Iterator[FieldError]:
    """Yield what is wrong with the class of a service that is, or is not, load-balanced.

    Args:
        spec: of the service.
        before: of the service as it was; empty when it is new.
    """
    path, chosen = "spec.loadBalancerClass", spec.get("loadBalancerClass")
    if spec.get("type") != "LoadBalancer":
        if chosen is not None:
            yield forbidden(path, "may only be used when `type` is 'LoadBalancer'")
        return
    if before.get("type") == "LoadBalancer" and before.get("loadBalancerClass") != chosen:
        yield invalid(path, chosen, "may not change once set")
    for error in qualified_name_errors(chosen) if chosen is not None else ():
        yield invalid(path, chosen, error)


def status_problems(body: Body) -> Iterator[FieldError]:
    """Yield what is wrong with the addresses in a service's status."""
    path = "status.loadBalancer.ingress"
    given = (body.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
    if given and body.get("spec", {}).get("type") != "LoadBalancer":
        yield forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for at, ingress in enumerate(given):
        yield from _ingress_problems(ingress, f"{path}[{at}]")


def _ingress_problems(ingress: dict[str, Any], path: str) -> Iterator[FieldError]:
    address, name, mode = (ingress.get(key) or "" for key in ("ip", "hostname", "ipMode"))
    if address and not _is_address(address):
        yield invalid(f"{path}.ip", address, _IP)
    if "ipMode" not in ingress:
        if address:
            yield required(f"{path}.ipMode", "must be specified when `ip` is set")
    elif not address:
        yield forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set")
    elif mode not in _MODES:
        yield not_supported(f"{path}.ipMode", mode, _MODES)
    for error in subdomain_errors(name) if name else ():
        yield invalid(f"{path}.hostname", name, error)
    if name and _is_address(name):
        yield invalid(f"{path}.hostname", name, "must be a DNS name, not an IP address")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text
