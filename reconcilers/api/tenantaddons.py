"""The addons of a TenantCluster's spec, with those that this project reads."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from controller.markers import ApiType, FieldSchema, Rule, SchemaOf, rules, with_config
from reconcilers.api.fields import MODEL, OTHERS, FreeForm, Opaque, model, words

DEFAULT_LOAD_BALANCER = "metallb"
"""The provider of load balancers where a TenantCluster names none."""
CILIUM = "cilium"
"""The provider of load balancers that is Cilium's LB-IPAM."""
OTHER_ADDONS = "reconcilers.api.otheraddons"
"""The module with the types of the addons that only other controllers read."""


LABEL_NAME = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)"
"""A label's name without prefix, and a label's value unless that is empty."""
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_KEY = rf"^({_DOMAIN}(\.{_DOMAIN})*/)?{LABEL_NAME}$"
"""Kubernetes' form of a label's key: a name, with a DNS subdomain before it or not."""
LABEL_VALUE = rf"^{LABEL_NAME}?$"
"""Kubernetes' form of a label's value."""
DOMAIN_MAX = 253
KEY_MAX = DOMAIN_MAX + len("/") + 63
VALUE_MAX = 63
MOST_TERMS = 32
"""How many labels and how many expressions a selector may have."""
MOST_VALUES = 64
IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"
OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)

LabelKey = Annotated[str, FieldSchema(pattern=LABEL_KEY, max_length=KEY_MAX)]
LabelValue = Annotated[str, FieldSchema(pattern=LABEL_VALUE, max_length=VALUE_MAX)]
VALUES_FIT_OPERATOR = Rule(
    "self.operator in ['In', 'NotIn'] == (has(self.values) && size(self.values) > 0)",
    "In and NotIn need values; Exists and DoesNotExist have none",
    at=".values",
)
_KEY_IN_CEL = LABEL_KEY.replace("\\", "\\\\")
KEYS_ARE_LABELS = Rule(
    f"self.all(key, size(key) <= {KEY_MAX} && key.matches('{_KEY_IN_CEL}'))",
    "a key must be that of a label, as in app or example.com/app",
)


@with_config(model(VALUES_FIT_OPERATOR))
class SelectorExpression(ApiType, frozen=True):
    """A term of a label selector."""

    key: LabelKey
    """Key of the label."""
    operator: Annotated[str, words(*OPERATORS)]
    """In or NotIn: the value of the label is, or is not, one of the values. Exists or
    DoesNotExist: the Service has, or has not, the label."""
    values: Annotated[tuple[LabelValue, ...], FieldSchema(max_length=MOST_VALUES)] = ()
    """Values of the label, for In and NotIn."""


@with_config(MODEL)
class ServiceSelector(ApiType, frozen=True):
    """Selects Services by their labels. All terms must hold; without terms it selects all."""

    matchLabels: Annotated[
        dict[str, LabelValue],
        FieldSchema(max_length=MOST_TERMS, json_schema_extra=rules(KEYS_ARE_LABELS)),
    ] = msgspec.field(default_factory=dict)
    """Labels that a Service must have, with their values."""
    matchExpressions: Annotated[
        tuple[SelectorExpression, ...], FieldSchema(max_length=MOST_TERMS)
    ] = ()
    """Further terms."""

    @property
    def is_empty(self) -> bool:
        """Whether it selects all Services."""
        return not self.matchLabels and not self.matchExpressions

    @property
    def body(self) -> dict[str, Any]:
        """The selector as an object of the API has it, without empty fields."""
        expressions = [
            {"key": term.key, "operator": term.operator}
            | ({"values": list(term.values)} if term.values else {})
            for term in self.matchExpressions
        ]
        parts = {"matchLabels": dict(self.matchLabels), "matchExpressions": expressions}
        return {name: part for name, part in parts.items() if part}

    def find_contradiction(self) -> str:
        """Return a key about which terms contradict each other; empty if none is found."""
        for key in {*self.matchLabels, *(term.key for term in self.matchExpressions)}:
            terms = [term for term in self.matchExpressions if term.key == key]
            # Each entry has the values that one term allows; no entry means any value.
            choices = [{self.matchLabels[key]}] if key in self.matchLabels else []
            choices += [set(term.values) for term in terms if term.operator == IN]
            operators = {term.operator for term in terms}
            excluded = {
                value for term in terms if term.operator == NOT_IN for value in term.values
            }
            has_no_value = bool(choices) and not set[str].intersection(*choices) - excluded
            is_required = bool(choices) or EXISTS in operators
            if has_no_value or (is_required and DOES_NOT_EXIST in operators):
                return key
        return ""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether it selects an object with these labels."""
        return self.matchLabels.items() <= labels.items() and all(
            _holds(term, labels) for term in self.matchExpressions
        )


def _holds(term: SelectorExpression, labels: Mapping[str, str]) -> bool:
    """Return whether a term is true for an object with these labels."""
    match term.operator:
        case "In":
            return labels.get(term.key) in term.values
        case "NotIn":
            return labels.get(term.key) not in term.values
        case "Exists":
            return term.key in labels
        case "DoesNotExist":
            return term.key not in labels
        case _:
            # The schema rejects other operators. A term that is not understood selects nothing.
            return False


@with_config(MODEL)
class CiliumSettings(ApiType, frozen=True):
    """Settings of Cilium's LB-IPAM in the cluster."""

    serviceSelector: ServiceSelector | None = None
    """The Services that get addresses of the cluster's ranges, by their labels; absent for all.
    Its namespace and its name are labels of a Service here, too: io.kubernetes.service.namespace
    and io.kubernetes.service.name. A Service that is not selected does not make the cluster grow,
    and loses the address that it has."""


@with_config(OTHERS)
class LoadBalancerAddon(ApiType, frozen=True):
    """What serves Services of type LoadBalancer."""

    version: str
    """Version of the addon."""
    provider: Annotated[str, words(DEFAULT_LOAD_BALANCER, CILIUM)] = DEFAULT_LOAD_BALANCER
    """The load balancer that serves Services of type LoadBalancer: metallb, or cilium for Cilium's
    LB-IPAM. If it is changed, the old load balancer releases its ranges first, and Services get
    other addresses."""
    cilium: CiliumSettings | None = None
    """Settings that butler-ipam writes into the cluster if the provider is cilium."""
    values: FreeForm | None = None
    """Settings of the addon."""


@with_config(OTHERS)
class IngressAddon(ApiType, frozen=True):
    """What serves Ingresses. It usually takes the first load-balancer address."""

    enabled: bool | None = None
    """Whether an ingress controller is installed; absent means true. It usually takes the first
    load-balancer address. If it is false, an elastic cluster starts without addresses."""
    provider: Annotated[str, words("traefik", "nginx")] | None = None
    """The ingress controller: traefik or nginx."""
    version: str | None = None
    """Version of the addon."""
    values: FreeForm | None = None
    """Settings of the addon."""


@with_config(OTHERS)
class Addons(ApiType, frozen=True):
    """What is installed in the cluster."""

    cni: Annotated[Opaque, SchemaOf(OTHER_ADDONS, "Cni")] | None = None
    """The network plugin."""
    loadBalancer: LoadBalancerAddon | None = None
    """The load balancer of Services. Its provider decides how ranges are handed to the cluster."""
    certManager: Annotated[Opaque, SchemaOf(OTHER_ADDONS, "CertManager")] | None = None
    """cert-manager. Read by the controller that builds the cluster, not by butler-ipam."""
    storage: Annotated[Opaque, SchemaOf(OTHER_ADDONS, "Storage")] | None = None
    """The storage system. Read by the controller that builds the cluster, not by butler-ipam."""
    ingress: IngressAddon | None = None
    """The ingress controller."""
    gitops: Annotated[Opaque, SchemaOf(OTHER_ADDONS, "GitOps")] | None = None
    """The tool that applies manifests from a Git repository. Read by the controller that builds
    the cluster, not by butler-ipam."""

    @property
    def ingress_enabled(self) -> bool:
        """Whether an ingress is installed: unless it says no."""
        return self.ingress is None or self.ingress.enabled is not False
