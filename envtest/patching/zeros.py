"""Built-in kinds: what an object consists of that nobody filled in, and who may write which part.

Both are facts about the Go types and registries of Kubernetes v1.36.2. A kind that ZERO does not
name has empty metadata and nothing else; what RESET names for a subresource ("" is the object
itself) is thrown away when it is sent there, so nobody comes to own it that way.
"""

from collections.abc import Mapping
from typing import Any

from envtest.patching.componentzeros import COMPONENT_RESET, COMPONENT_ZERO
from envtest.patching.fieldset import Fields

_POD_TEMPLATE: Mapping[str, Any] = {"metadata": {}, "spec": {"containers": None}}

ZERO: Mapping[tuple[str, str], Mapping[str, Any]] = {
    **COMPONENT_ZERO,
    ("", "Event"): {
        "metadata": {},
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    ("", "LimitRange"): {"metadata": {}, "spec": {"limits": None}},
    ("", "Namespace"): {"metadata": {}, "spec": {}, "status": {}},
    ("", "Node"): {
        "metadata": {},
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": "",
                "osImage": "",
                "containerRuntimeVersion": "",
                "kubeletVersion": "",
                "kubeProxyVersion": "",
                "operatingSystem": "",
                "architecture": "",
            },
        },
    },
    ("", "PersistentVolume"): {"metadata": {}, "spec": {}, "status": {}},
    ("", "PersistentVolumeClaim"): {"metadata": {}, "spec": {"resources": {}}, "status": {}},
    ("", "Pod"): {"metadata": {}, "spec": {"containers": None}, "status": {}},
    ("", "PodTemplate"): {"metadata": {}, "template": _POD_TEMPLATE},
    ("", "ReplicationController"): {"metadata": {}, "spec": {}, "status": {"replicas": 0}},
    ("", "ResourceQuota"): {"metadata": {}, "spec": {}, "status": {}},
    ("", "Service"): {"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}},
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {
        "metadata": {},
        "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": None},
        "status": {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None,
        },
    },
    ("apps", "ControllerRevision"): {"metadata": {}, "data": None, "revision": 0},
    ("apps", "DaemonSet"): {
        "metadata": {},
        "spec": {"selector": None, "template": _POD_TEMPLATE, "updateStrategy": {}},
        "status": {
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
    },
    ("apps", "Deployment"): {
        "metadata": {},
        "spec": {"selector": None, "template": _POD_TEMPLATE, "strategy": {}},
        "status": {},
    },
    ("apps", "ReplicaSet"): {
        "metadata": {},
        "spec": {"selector": None, "template": _POD_TEMPLATE},
        "status": {"replicas": 0},
    },
    ("apps", "StatefulSet"): {
        "metadata": {},
        "spec": {
            "selector": None,
            "template": _POD_TEMPLATE,
            "serviceName": "",
            "updateStrategy": {},
        },
        "status": {"replicas": 0, "availableReplicas": 0},
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "metadata": {},
        "spec": {"scaleTargetRef": {"kind": "", "name": ""}, "maxReplicas": 0},
        "status": {"desiredReplicas": 0, "currentMetrics": None},
    },
    ("batch", "CronJob"): {
        "metadata": {},
        "spec": {
            "schedule": "",
            "jobTemplate": {"metadata": {}, "spec": {"template": _POD_TEMPLATE}},
        },
        "status": {},
    },
    ("batch", "Job"): {"metadata": {}, "spec": {"template": _POD_TEMPLATE}, "status": {}},
    ("coordination.k8s.io", "Lease"): {"metadata": {}, "spec": {}},
    ("discovery.k8s.io", "EndpointSlice"): {
        "metadata": {},
        "addressType": "",
        "endpoints": None,
        "ports": None,
    },
    ("events.k8s.io", "Event"): {
        "metadata": {},
        "eventTime": None,
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    },
    ("networking.k8s.io", "Ingress"): {"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}},
    ("networking.k8s.io", "IngressClass"): {"metadata": {}, "spec": {}},
    ("networking.k8s.io", "NetworkPolicy"): {"metadata": {}, "spec": {"podSelector": {}}},
    ("policy", "PodDisruptionBudget"): {
        "metadata": {},
        "spec": {},
        "status": {
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        },
    },
    ("rbac.authorization.k8s.io", "ClusterRole"): {"metadata": {}, "rules": None},
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {
        "metadata": {},
        "roleRef": {"apiGroup": "", "kind": "", "name": ""},
    },
    ("rbac.authorization.k8s.io", "Role"): {"metadata": {}, "rules": None},
    ("rbac.authorization.k8s.io", "RoleBinding"): {
        "metadata": {},
        "roleRef": {"apiGroup": "", "kind": "", "name": ""},
    },
    ("scheduling.k8s.io", "PriorityClass"): {"metadata": {}, "value": 0},
    ("storage.k8s.io", "StorageClass"): {"metadata": {}, "provisioner": ""},
}

_MAIN: Fields = {"f:status": {}}
_STATUS: Fields = {"f:spec": {}}
_BOTH: Mapping[str, Fields] = {"": _MAIN, "status": _STATUS}

RESET: Mapping[tuple[str, str], Mapping[str, Fields]] = {
    **COMPONENT_RESET,
    ("", "Namespace"): {**_BOTH, "finalize": _MAIN},
    ("", "Node"): _BOTH,
    ("", "PersistentVolume"): _BOTH,
    ("", "PersistentVolumeClaim"): _BOTH,
    ("", "Pod"): {
        "": _MAIN,
        "status": {
            "f:spec": {},
            "f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}},
        },
    },
    ("", "ReplicationController"): _BOTH,
    ("", "ResourceQuota"): _BOTH,
    ("", "Service"): _BOTH,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _BOTH,
    ("apps", "DaemonSet"): _BOTH,
    ("apps", "Deployment"): {
        "": _MAIN,
        "status": {"f:spec": {}, "f:metadata": {"f:labels": {}}},
    },
    ("apps", "ReplicaSet"): _BOTH,
    ("apps", "StatefulSet"): _BOTH,
    ("autoscaling", "HorizontalPodAutoscaler"): _BOTH,
    ("batch", "CronJob"): _BOTH,
    ("batch", "Job"): _BOTH,
    ("networking.k8s.io", "Ingress"): _BOTH,
    ("policy", "PodDisruptionBudget"): _BOTH,
}
