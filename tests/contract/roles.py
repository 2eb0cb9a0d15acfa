"""The permissions of the shipped roles, and the objects of the flow that uses all of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from envtest.faults import Call
from manifests import get_folder
from reconcilers.api import names
from reconcilers.api.tenantcluster import TenantCluster
from tests.yamls import read_all_yaml

HOME = names.DEFAULT_NAMESPACE
Json = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """One permission of a role: a verb on a resource.

    Args:
        role: the name of the role.
        namespace: the namespace of a Role; empty for a ClusterRole.
        names: the names of the objects that it is limited to; empty for no limit.
    """

    role: str
    namespace: str
    verb: str
    group: str
    resource: str
    names: tuple[str, ...]

    def covers(self, call: Call) -> bool:
        """Return whether this permission allows a request."""
        requested = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
        if (call.verb, call.group, requested) != (self.verb, self.group, self.resource):
            return False
        if self.namespace and call.namespace != self.namespace:
            return False
        return not self.names or find_object_name(call) in self.names


def find_object_name(call: Call) -> str:
    """Return the name of a request's object, which lists and watches have in a field selector."""
    return call.name or call.query.get("fieldSelector", "").removeprefix("metadata.name=")


def list_manifests(name: str) -> Iterator[Json]:
    """Yield the objects in a folder of manifests, without patches."""
    for file in sorted(get_folder(name).iterdir(), key=lambda path: path.name):
        if file.name.endswith(".yaml") and file.name != "kustomization.yaml":
            loaded = read_all_yaml(file.read_text(encoding="utf-8"))
            yield from (document for document in loaded if isinstance(document, dict))


def list_rules(component: str = "rbac") -> Iterator[Rule]:
    """Yield every permission of the controllers' roles in a component of manifests/."""
    bound_roles = {
        document["roleRef"]["name"]
        for document in list_manifests(component)
        if document["kind"].endswith("Binding")
    }
    for role in list_manifests(component):
        if (
            role["kind"] not in {"Role", "ClusterRole"}
            or role["metadata"]["name"] not in bound_roles
        ):
            continue
        namespace = role["metadata"].get("namespace", "")
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        object_names = tuple(rule.get("resourceNames", ()))
                        name = role["metadata"]["name"]
                        yield Rule(
                            name,
                            namespace,
                            verb=verb,
                            group=group,
                            resource=resource,
                            names=object_names,
                        )


def make_object(kind: str, name: str, spec: Json, namespace: str = HOME, **metadata: Any) -> Json:
    """Return an object of one of our kinds; `metadata` has further fields of its metadata."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": spec,
    }


def make_core_object(kind: str, name: str, namespace: str | None, **body: Any) -> Json:
    """Return an object of the core API; None is the namespace of a cluster-scoped object."""
    within = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **within}, **body}


def make_provider(name: str, **spec: Any) -> Json:
    """Return a ProviderConfig with the pool `lab` and elastic load-balancer addresses."""
    return make_object(
        "ProviderConfig",
        name,
        {
            "provider": "proxmox",
            "credentialsRef": {"name": "credentials"},
            "proxmox": {"endpoint": "https://p", "nodes": ["a"], "storage": "s"},
            "network": {
                "mode": "ipam",
                "poolRefs": [{"name": "lab"}],
                "loadBalancer": {
                    "allocationMode": "elastic",
                    "initialPoolSize": 1,
                    "growthIncrement": 1,
                },
            },
            **spec,
        },
    )


def make_cluster(name: str, **spec: Any) -> Json:
    """Return a TenantCluster in namespace `team`."""
    body = {"kubernetesVersion": "v1.31.0", "workers": {"replicas": 1}, **spec}
    return make_object("TenantCluster", name, spec=body, namespace="team")


def make_orphan() -> Json:
    """Return an allocation whose TenantCluster never existed."""
    spec = {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"namespace": "team", "name": "gone"},
        "type": "nodes",
        "count": 2,
    }
    return make_object(
        "IPAllocation", "left", spec, annotations={names.ANNOTATION_TENANT_UID: "unknown"}
    )


def make_too_large_request(name: str) -> Json:
    """Return an allocation of more addresses than the pool has."""
    spec = {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"namespace": "team", "name": "soon"},
        "type": "nodes",
        "count": 64,
    }
    return make_object("IPAllocation", name, spec)


def make_early_request() -> Json:
    """Return an allocation whose pool does not exist yet."""
    spec = {
        "poolRef": {"name": "later"},
        "tenantClusterRef": {"namespace": "team", "name": "early"},
        "type": "nodes",
        "count": 1,
    }
    return make_object("IPAllocation", "early", spec)


def is_projection_begun(tenant: TenantCluster) -> bool:
    """Return whether the first projection into a tenant was recorded."""
    return names.ANNOTATION_PROJECTION_BEGUN in tenant.metadata.annotations
