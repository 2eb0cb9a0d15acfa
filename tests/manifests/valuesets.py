"""Sets of values for rendering, validating and installing the chart; each value is in a set."""

from collections.abc import Mapping, Sequence
from typing import Any

Values = dict[str, Any]

ODD_ARGUMENTS = [
    "--a=b: c # d",
    "--e={{ f }}",
    "--g='h\"",
    "- i",
    "--j=\\n\u00fc",
    "*k",
    "--l=\ttab",
]
"""Arguments that YAML or a template parses as something else if they are not quoted."""
ODD_SETTINGS: Values = {
    "load-balancer-class": "b: c # d",
    "metallb-namespace": "yes",
    "tenant-allow-proxy": True,
    "metallb-bundle": '"',
    "platform-service": "1e3",
}
DIGEST = "sha256:" + "a" * 64
LONGEST_NAME = "x" * 54 + "-yz"

VALUE_SETS: Mapping[str, Values] = {
    "defaults": {},
    "image as documented": {
        "image": {"repository": "registry.example/butler-ipam", "tag": "0.1.0"}
    },
    "image by digest": {"image": {"digest": DIGEST, "pullPolicy": "Always"}},
    "bundle as documented": {"settings": {"metallb-bundle": "metallb"}},
    "settings": {"settings": {"growth-when-exhausted": "2s", "concurrency": 4}},
    "shards": {"replicaCount": 3, "settings": {"shards": 8}},
    "odd settings": {"settings": ODD_SETTINGS, "priorityClassName": "123"},
    "names as a list": {"settings": {"pool-namespaces": ["network", "butler-system"]}},
    "other name": {"fullnameOverride": "other"},
    "longest name": {"fullnameOverride": LONGEST_NAME},
    "name of its own": {"nameOverride": "ipam"},
    "crds by others": {"crds": {"enable": False}},
    "crds not kept": {"crds": {"keep": False}},
    "with Cluster API": {"integrations": ["clusterapi"]},
    "with KKP": {"integrations": ["kubermatic", "clusterapi"]},
    "with metal3": {"integrations": ["metal3", "clusterapi"]},
    "with vitistack": {"integrations": ["vitistack", "kubermatic"]},
    "with Cluster API but not its kinds": {
        "integrations": ["clusterapi"],
        "crds": {"enable": False},
    },
    "no webhooks": {"webhooks": {"enabled": False}},
    "webhooks that may fail": {"webhooks": {"failurePolicy": "Ignore", "port": 10250}},
    "roles by others": {"rbac": {"create": False, "people": True}},
    "no roles for people": {"rbac": {"people": False}},
    "account by others": {"serviceAccount": {"create": False, "name": "there"}},
    "account with annotations": {"serviceAccount": {"annotations": {"a": "b"}}},
    "network policy": {
        "networkPolicy": {"enabled": True},
        "podDisruptionBudget": {"enabled": False},
    },
    "plain metrics": {"metrics": {"secure": False, "port": 8080, "dashboard": {"enabled": True}}},
    "debugging": {
        "metrics": {"secure": False},
        "logging": {"level": "debug", "format": "console"},
    },
    "the page": {"ui": {"enabled": True}, "networkPolicy": {"enabled": True}},
    "the page with a certificate": {
        "ui": {"enabled": True, "port": 9090, "certificateSecret": "page-tls"},
        "networkPolicy": {
            "enabled": True,
            "pageFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
        },
        "fullnameOverride": "other",
    },
    "placement": {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
                    ]
                }
            }
        },
    },
    "marks on pods": {
        "podAnnotations": {"a": "b: c"},
        "podLabels": {"team": "x"},
        "replicaCount": 1,
        "resources": {"requests": {"memory": "512Mi"}, "limits": {"memory": "1Gi"}},
    },
    "network policy with its peers": {
        "networkPolicy": {
            "enabled": True,
            "scrapesFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            "admissionFrom": [{"ipBlock": {"cidr": "192.0.2.0/28"}}],
            "apiServerPorts": [6443, 30443],
            "apiServers": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}}],
        },
        "podDisruptionBudget": {"maxUnavailable": "50%"},
        "webhooks": {"timeoutSeconds": 5},
    },
    "spread and names": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["192.0.2.53"], "options": [{"name": "ndots", "value": "2"}]},
        "extraVolumes": [{"name": "authorities", "configMap": {"name": "authorities"}}],
        "extraVolumeMounts": [
            {"name": "authorities", "mountPath": "/authorities", "readOnly": True}
        ],
    },
    "odd arguments": {
        "extraArgs": ODD_ARGUMENTS,
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
        "imagePullSecrets": [{"name": "pull"}],
    },
}
"""Sets whose objects have only kinds of Kubernetes and of ours."""

WITH_FOREIGN_KINDS: Mapping[str, Values] = {
    "cert-manager": {"webhooks": {"certManager": {"enabled": True}}},
    "prometheus": {
        "metrics": {
            "serviceMonitor": {
                "enabled": True,
                "interval": "45s",
                "labels": {"release": "mine"},
            },
            "rules": {
                "enabled": True,
                "labels": {"release": "mine"},
                "runbookUrl": "https://wiki.example/ipam",
            },
            "dashboard": {"enabled": True, "labels": {"grafana_dashboard": "1"}},
        },
        "networkPolicy": {"enabled": True},
    },
    "everything": {
        "webhooks": {"certManager": {"enabled": True}},
        "metrics": {
            "serviceMonitor": {"enabled": True},
            "rules": {"enabled": True},
            "dashboard": {"enabled": True},
        },
        "networkPolicy": {"enabled": True},
        "fullnameOverride": "other",
    },
}
"""Sets whose objects have kinds of cert-manager and of the Prometheus operator, too."""

REFUSED: Sequence[Values] = [
    {"replicas": 3},
    {"metrics": {"rules": {"runbookUrl": "docs/operating/runbooks.md"}}},
    {"replicaCount": "2"},
    {"replicaCount": -1},
    {"image": {"digest": "latest"}},
    {"image": {"repository": ""}},
    {"fullnameOverride": "Upper"},
    {"fullnameOverride": "123"},
    {"serviceAccount": {"name": "a b"}},
    {"settings": {"--concurrency": 4}},
    {"settings": {"concurency": 4}},
    {"settings": {"concurrency": 0}},
    {"settings": {"growth-after": "soon"}},
    {"settings": {"backfill-node-allocations": "maybe"}},
    {"settings": {"namespace": "other"}},
    {"resources": {"request": {"memory": "1Gi"}}},
    {"resources": {"requests": {"memory": "lots"}}},
    {"tolerations": [{"operator": "Exist"}]},
    {"affinity": {"nodeAfinity": {}}},
    {"extraEnv": [{"value": "x"}]},
    {"extraVolumes": [{"configMap": {"name": "x"}}]},
    {"extraVolumeMounts": [{"name": "x", "mountPath": "relative"}]},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "rack"}]},
    {"dnsPolicy": "Some"},
    {"dnsConfig": {"nameserver": ["192.0.2.53"]}},
    {"podDisruptionBudget": {"maxUnavailable": "half"}},
    {"networkPolicy": {"apiServerPorts": []}},
    {"networkPolicy": {"apiServers": [{"ipBlock": {"cidr": "everywhere"}}]}},
    {"webhooks": {"timeoutSeconds": 31}},
    {"settings": {"max-pool-addresses": 16777216}},
    {"settings": {"concurrency": [4]}},
    {"webhooks": {"failurePolicy": "Maybe"}},
    {"webhooks": {"port": 0}},
    {"ui": {"port": 0}},
    {"ui": {"certificateSecret": "A b"}},
    {"settings": {"ui-bind-address": ":8090"}},
    {"metrics": {"serviceMonitor": {"interval": "often"}}},
    {"logging": {"level": "loud"}},
    {"podLabels": {"a": 1}},
    {"extraArgs": "--x"},
    {"crds": None},
    {"webhooks": {"certManager": None}},
    {"metrics": {"rules": {"enabled": True, "runbookUrl": None}}},
]
"""Sets of values that the chart's schema rejects, each with exactly one error."""
