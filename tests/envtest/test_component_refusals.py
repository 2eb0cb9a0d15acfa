"""What cannot be said of components, or not be changed, is refused in the real server's words."""

from typing import Any

import httpx
import pytest

from tests.envtest.components import (
    ADMISSION,
    DEVICES,
    FLOWS,
    LEAST,
    MATCH,
    NETWORKS,
    REGISTRATION,
    STORAGE,
    named,
)

MERGE = {"Content-Type": "application/merge-patch+json"}
NODES = "/apis/node.k8s.io/v1/runtimeclasses"


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (f"{STORAGE}/storageclasses", {}, "provisioner: Required value"),
        (
            f"{STORAGE}/storageclasses",
            {"provisioner": "p", "reclaimPolicy": "Recycle"},
            'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
        ),
        (
            f"{STORAGE}/volumeattributesclasses",
            {"driverName": "d"},
            "parameters: Required value: must contain at least one key/value pair",
        ),
        (
            f"{STORAGE}/csidrivers",
            {"spec": {"tokenRequests": [{"audience": "a", "expirationSeconds": 9}]}},
            (
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 9: "
                "may not specify a duration less than 10 minutes"
            ),
        ),
        (
            f"{STORAGE}/csinodes",
            {"spec": {"drivers": [{"name": "d"}]}},
            "spec.drivers[0].nodeID: Required value",
        ),
        (
            f"{STORAGE}/volumeattachments",
            {"spec": {"attacher": "d", "nodeName": "n", "source": {}}},
            (
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and "
                "persistentVolumeName"
            ),
        ),
        (
            f"{NETWORKS}/ipaddresses",
            {"spec": {"parentRef": {"resource": "services", "name": "s"}}},
            (
                'metadata.name: Invalid value: "a": must be a valid IP address, '
                "(e.g. 10.9.8.7 or 2001:db8::ffff)"
            ),
        ),
        (
            f"{NETWORKS}/servicecidrs",
            {"spec": {"cidrs": ["10.97.0.1/16"]}},
            (
                'spec.cidrs[0]: Invalid value: "10.97.0.1/16": '
                "must not have bits set beyond the prefix length"
            ),
        ),
        (
            f"{NETWORKS}/ingressclasses",
            {"spec": {"controller": "c"}},
            (
                'spec.controller: Invalid value: "c": must be a domain-prefixed path '
                '(such as "acme.io/foo")'
            ),
        ),
        (
            f"{FLOWS}/flowschemas",
            {"spec": {"matchingPrecedence": 1}},
            "only the schema named 'exempt' may have matchingPrecedence 1",
        ),
        (
            f"{FLOWS}/flowschemas",
            {"spec": {"priorityLevelConfiguration": {"name": "p"}, "rules": [{}]}},
            "spec.rules[0].subjects: Required value: subjects must contain at least one value",
        ),
        (
            f"{FLOWS}/prioritylevelconfigurations",
            {"spec": {"type": "Limited"}},
            "spec.limited: Required value: must not be empty when type is Limited",
        ),
        (
            f"{ADMISSION}/validatingadmissionpolicies",
            {"spec": {"matchConstraints": MATCH}},
            (
                "spec.validations: Required value: validations or auditAnnotations must contain "
                "at least one item"
            ),
        ),
        (
            f"{ADMISSION}/validatingadmissionpolicybindings",
            {"spec": {"policyName": "p", "validationActions": []}},
            "spec.validationActions: Required value: at least one validation action is required",
        ),
        (
            f"{ADMISSION}/mutatingadmissionpolicies",
            {"spec": {"matchConstraints": MATCH, "mutations": [{"patchType": "JSONPatch"}]}},
            "spec.reinvocationPolicy: Required value",
        ),
        (NODES, {"handler": "Run_C"}, 'handler: Invalid value: "Run_C": a lowercase RFC 1123'),
        (
            f"{REGISTRATION}/apiservices",
            {"spec": {"group": "g.io", "version": "v1"}},
            (
                'metadata.name: Invalid value: "a": must be `spec.version+"."+spec.group`: '
                '"v1.g.io"'
            ),
        ),
        (
            f"{DEVICES}/namespaces/default/resourceclaims",
            {"spec": {"devices": {"requests": [{"name": "r"}]}}},
            (
                "spec.devices.requests[0]: Required value: exactly one of `exactly` or "
                "`firstAvailable` is required"
            ),
        ),
    ],
)
async def test_what_cannot_be_is_refused_with_its_reason(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], message: str
) -> None:
    answer = await http.post(path, json=named("a", body))

    assert answer.status_code == 422
    assert message in answer.json()["message"]


@pytest.mark.parametrize(
    ("path", "patch", "message"),
    [
        (NODES, {"handler": "kata"}, 'handler: Invalid value: "kata": field is immutable'),
        (
            f"{STORAGE}/storageclasses",
            {"parameters": {"a": "b"}},
            "parameters: Forbidden: updates to parameters are forbidden.",
        ),
        (
            f"{STORAGE}/volumeattachments",
            {"spec": {"nodeName": "other"}},
            (
                'spec: Invalid value: {"Attacher":"d.example.com","Source":'
                '{"PersistentVolumeName":"v","InlineVolumeSpec":null},"NodeName":"other"}: '
                "field is immutable"
            ),
        ),
        (
            f"{NETWORKS}/servicecidrs",
            {"spec": {"cidrs": ["10.98.0.0/16"]}},
            'spec.cidrs: Invalid value: ["10.98.0.0/16"]: field is immutable',
        ),
        (
            f"{NETWORKS}/ingressclasses",
            {"spec": {"controller": "e.io/d"}},
            'spec.controller: Invalid value: "e.io/d": field is immutable',
        ),
        (
            f"{DEVICES}/namespaces/default/resourceclaims",
            {"spec": {"devices": {"requests": [{"name": "r"}]}}},
            "field is immutable",
        ),
    ],
)
async def test_what_was_decided_once_stays(
    http: httpx.AsyncClient, path: str, patch: dict[str, Any], message: str
) -> None:
    assert (await http.post(path, json=named("a", LEAST[path]))).status_code == 201

    answer = await http.patch(f"{path}/a", json=patch, headers=MERGE)

    assert answer.status_code == 422
    assert message in answer.json()["message"]
