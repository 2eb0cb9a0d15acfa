"""What a tenant's API server is told of MetalLB's kinds, as far as the stand-in needs them.

An empty list of addresses, which MetalLB's admission webhook refuses, is refused by the schema
here; what only more than one object tells is the controller's to refuse.
"""

from typing import Any

from reconcilers.cli.standin.api import GROUP, VERSION

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_COUNT: Schema = {"type": "integer", "format": "int64"}
_SELECTORS: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "matchLabels": {"type": "object", "additionalProperties": _TEXT},
            "matchExpressions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {"key": _TEXT, "operator": _TEXT, "values": _TEXTS},
                },
            },
        },
    },
}
_COUNTS = ("assignedIPv4", "assignedIPv6", "availableIPv4", "availableIPv6")

_POOL_SPEC: Schema = {
    "type": "object",
    "description": "Addresses that Services of type LoadBalancer can be given.",
    "required": ["addresses"],
    "properties": {
        "addresses": {
            "description": "Each a CIDR or start-end; a single address is written /32 or a-a.",
            "minItems": 1,
            **_TEXTS,
        },
        "autoAssign": {
            "description": "Whether Services get addresses that do not ask for this pool.",
            "type": "boolean",
            "default": True,
        },
        "avoidBuggyIPs": {
            "description": "Leave out IPv4 addresses that end in .0 or .255.",
            "type": "boolean",
            "default": False,
        },
        "serviceAllocation": {
            "description": "Restricts the pool to some Services; no effect in the stand-in.",
            "type": "object",
            "properties": {
                "priority": {"type": "integer"},
                "namespaces": _TEXTS,
                "namespaceSelectors": _SELECTORS,
                "serviceSelectors": _SELECTORS,
            },
        },
    },
}
_POOL_STATUS: Schema = {
    "type": "object",
    "required": list(_COUNTS),
    "properties": dict.fromkeys(_COUNTS, _COUNT),
}
_ADVERTISEMENT_SPEC: Schema = {
    "type": "object",
    "description": "Which pools are announced on the local network; nothing is, in the stand-in.",
    "properties": {
        "ipAddressPools": _TEXTS,
        "ipAddressPoolSelectors": _SELECTORS,
        "nodeSelectors": _SELECTORS,
        "interfaces": _TEXTS,
        "serviceSelectors": _SELECTORS,
    },
}


def crds() -> list[Schema]:
    """Return the CustomResourceDefinitions of IPAddressPool and L2Advertisement."""
    return [
        _definition(
            "IPAddressPool",
            {"spec": _POOL_SPEC, "status": _POOL_STATUS},
            [
                {"name": "Auto Assign", "type": "boolean", "jsonPath": ".spec.autoAssign"},
                {"name": "Avoid Buggy IPs", "type": "boolean", "jsonPath": ".spec.avoidBuggyIPs"},
                {"name": "Addresses", "type": "string", "jsonPath": ".spec.addresses"},
            ],
        ),
        _definition(
            "L2Advertisement",
            {"spec": _ADVERTISEMENT_SPEC, "status": {"type": "object"}},
            [{"name": "IPAddressPools", "type": "string", "jsonPath": ".spec.ipAddressPools"}],
        ),
    ]


def _definition(kind: str, parts: Schema, columns: list[Schema]) -> Schema:
    plural = f"{kind.lower()}s"
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            **parts,
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }
