"""Default Roles within single namespaces, and whom they are for."""

from typing import Final

from envtest.bootstrap.shorthand import EVENTS, READ, Line

_LEADING: Final = "create get list update watch"
_LOCKS: Final[tuple[Line, ...]] = (
    ("coordination.k8s.io", "leases", _LEADING),
    ("coordination.k8s.io", "leasecandidates", _LEADING),
)
_MANAGER: Final = "system::leader-locking-kube-controller-manager"
_SCHEDULER: Final = "system::leader-locking-kube-scheduler"
_SIGNER: Final = "system:controller:bootstrap-signer"

# Namespace and name -> rules.
ROLES: Final[dict[tuple[str, str], tuple[Line, ...]]] = {
    ("kube-public", _SIGNER): (
        ("_", "configmaps", READ),
        ("_", "configmaps", "update", "cluster-info"),
        EVENTS,
    ),
    ("kube-system", "extension-apiserver-authentication-reader"): (
        ("_", "configmaps", READ, "extension-apiserver-authentication"),
    ),
    ("kube-system", _MANAGER): _LOCKS,
    ("kube-system", _SCHEDULER): _LOCKS,
    ("kube-system", _SIGNER): (("_", "secrets", READ),),
    ("kube-system", "system:controller:cloud-provider"): (
        ("_", "configmaps", "create get list watch"),
    ),
    ("kube-system", "system:controller:token-cleaner"): (
        ("_", "secrets", "delete get list watch"),
        EVENTS,
    ),
}
# Namespace and name -> the role, and subjects as in `components.BOUND`.
BINDINGS: Final[dict[tuple[str, str], tuple[str, tuple[str, ...]]]] = {
    ("kube-public", _SIGNER): (_SIGNER, ("account bootstrap-signer",)),
    ("kube-system", "system::extension-apiserver-authentication-reader"): (
        "extension-apiserver-authentication-reader",
        ("user system:kube-controller-manager", "user system:kube-scheduler"),
    ),
    ("kube-system", _MANAGER): (
        _MANAGER,
        (
            "user system:kube-controller-manager",
            "account kube-controller-manager",
            "account leader-election-controller",
        ),
    ),
    ("kube-system", _SCHEDULER): (
        _SCHEDULER,
        ("user system:kube-scheduler", "account kube-scheduler"),
    ),
    ("kube-system", _SIGNER): (_SIGNER, ("account bootstrap-signer",)),
    ("kube-system", "system:controller:cloud-provider"): (
        "system:controller:cloud-provider",
        ("account cloud-provider",),
    ),
    ("kube-system", "system:controller:token-cleaner"): (
        "system:controller:token-cleaner",
        ("account token-cleaner",),
    ),
}
