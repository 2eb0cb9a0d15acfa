"""Which ProviderConfig a cluster names, as a key. The module `provider` looks the object up."""

from collections.abc import Mapping
from typing import Any

from controller.meta import Key
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import ClusterOutline
from reconcilers.api.tenantcluster import TenantCluster


def parse_reference(reference: Mapping[str, Any] | None, default_namespace: str) -> Key | None:
    """Return the key of the object that a reference names; None without a name in it.

    Args:
        reference: as ButlerConfig has it, which is another controller's kind: any JSON object.
        default_namespace: the namespace if the reference has none.
    """
    if not reference or not reference.get("name"):
        return None
    return Key(str(reference.get("namespace") or default_namespace), str(reference["name"]))


def refers_to(
    cluster: TenantCluster | ClusterOutline,
    config: ProviderConfig,
    default_namespace: str,
    *,
    by_default: bool,
) -> bool:
    """Return whether the reference of `cluster` names `config`.

    Args:
        default_namespace: the namespace if the reference has none.
        by_default: the result for a cluster without a reference, for which `config` may be the
            default.
    """
    reference = cluster.spec.providerConfigRef
    if reference is None:
        return by_default
    return config.metadata.key == (reference.namespace or default_namespace, reference.name)


def find_provider_key(
    tenant: TenantCluster, default_namespace: str, platform_default: Key | None
) -> Key | None:
    """Return the key in the tenant's reference, else `platform_default`, which may be None."""
    reference = tenant.spec.providerConfigRef
    if reference is not None:
        return Key(reference.namespace or default_namespace, reference.name)
    return platform_default


def describe_absent(tenant: TenantCluster, key: Key | None) -> str:
    """Return a sentence about a missing ProviderConfig: its key, and which object refers to it.

    Args:
        key: the missing ProviderConfig; None if neither the cluster nor the platform names one.
    """
    if key is None:
        return "no ProviderConfig for this cluster: it names none, and there is no default"
    if tenant.spec.providerConfigRef is not None:
        return f"spec.providerConfigRef names ProviderConfig {key}, which does not exist"
    return f"the platform's default is ProviderConfig {key}, which does not exist"
