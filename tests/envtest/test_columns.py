"""What `kubectl get` shows of built-in kinds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.builtins.columns import columns_of
from envtest.builtins.columns.cells import span
from envtest.kinds.catalogue import resources

KINDS = sorted(
    {
        entry["kind"]
        for entries in resources().values()
        for entry in entries
        if "get" in entry["verbs"] and "/" not in entry["name"]
    }
)


def row(kind: str, body: Any) -> dict[str, Any]:
    """Return the cells of a row by the names of their columns."""
    whole = {"metadata": {"name": "a"}, **body}
    return {column.name: cell(whole) for column, cell in columns_of(kind)}


def ago(**length: float) -> str:
    return (datetime.now(UTC) - timedelta(**length)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_bare_object_of_every_kind_has_a_row(kind: str) -> None:
    shown = row(kind, {})

    assert next(iter(shown)) == ("Last Seen" if kind == "Event" else "Name")
    for column, _ in columns_of(kind):
        expected = {"integer": int, "boolean": bool}.get(column.type)
        if expected and column.name != "Suspend":
            assert isinstance(shown[column.name], expected), column.name


CONTAINERS = {"containers": [{"name": "x", "image": "y"}, {"name": "z", "image": "w"}]}


def pod(status: Any, **meta: Any) -> dict[str, Any]:
    spec = {**CONTAINERS, "initContainers": [{"name": "i", "image": "j"}]}
    return {"metadata": {"name": "a", **meta}, "spec": spec, "status": status}


RUNS = {"name": "x", "ready": True, "state": {"running": {}}, "restartCount": 2}


@pytest.mark.parametrize(
    ("status", "meta", "word"),
    [
        ({"phase": "Pending"}, {}, "Pending"),
        ({"phase": "Running", "containerStatuses": [RUNS]}, {}, "Running"),
        ({"phase": "Running"}, {"deletionTimestamp": "x"}, "Terminating"),
        ({"phase": "Failed", "reason": "Evicted"}, {}, "Evicted"),
        ({"phase": "Running", "reason": "NodeLost"}, {"deletionTimestamp": "x"}, "Unknown"),
        (
            {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {}}]},
            {},
            "Init:0/1",
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 3}}}],
            },
            {},
            "Init:ExitCode:3",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {"name": "x", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
                ],
            },
            {},
            "CrashLoopBackOff",
        ),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
                ],
            },
            {},
            "SchedulingGated",
        ),
    ],
)
def test_a_pods_state_is_worked_out_of_its_containers(status: Any, meta: Any, word: str) -> None:
    assert row("Pod", pod(status, **meta))["Status"] == word


def test_a_pods_containers_and_restarts_are_counted() -> None:
    ended = {"lastState": {"terminated": {"finishedAt": ago(minutes=5)}}}
    shown = row("Pod", pod({"phase": "Running", "containerStatuses": [{**RUNS, **ended}]}))

    assert shown["Ready"] == "1/2"
    assert shown["Restarts"].startswith("2 (5m")


@pytest.mark.parametrize(
    ("kind", "body", "cells"),
    [
        (
            "Service",
            {
                "spec": {
                    "type": "LoadBalancer",
                    "clusterIPs": ["10.0.0.1"],
                    "externalIPs": ["1.1.1.1"],
                    "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}],
                    "selector": {"b": "c", "a": "b"},
                },
                "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "h"}]}},
            },
            {
                "Type": "LoadBalancer",
                "Cluster-IP": "10.0.0.1",
                "External-IP": "2.2.2.2,h,1.1.1.1",
                "Port(s)": "80:30000/TCP",
                "Selector": "a=b,b=c",
            },
        ),
        (
            "Service",
            {"spec": {"type": "ExternalName", "externalName": "x.example"}},
            {"Cluster-IP": "<none>", "External-IP": "x.example", "Port(s)": "<none>"},
        ),
        (
            "Deployment",
            {
                "spec": {
                    "replicas": 3,
                    "selector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
                    "template": {"spec": CONTAINERS},
                },
                "status": {"readyReplicas": 1, "updatedReplicas": 2},
            },
            {
                "Ready": "1/3",
                "Up-to-date": "2",
                "Available": "0",
                "Containers": "x,z",
                "Images": "y,w",
                "Selector": "k",
            },
        ),
        (
            "Job",
            {
                "spec": {"parallelism": 2},
                "status": {
                    "succeeded": 1,
                    "startTime": "2026-01-01T00:00:00Z",
                    "completionTime": "2026-01-01T00:03:05Z",
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            {"Status": "Complete", "Completions": "1/1 of 2", "Duration": "3m5s"},
        ),
        (
            "CronJob",
            {"spec": {"schedule": "* * * * *", "suspend": True}, "status": {"active": [{}]}},
            {"Timezone": "<none>", "Suspend": "True", "Active": 1, "Last Schedule": "<none>"},
        ),
        (
            "Ingress",
            {"spec": {"rules": [{"host": h} for h in "abcde"], "tls": [{}]}},
            {"Class": "<none>", "Hosts": "a,b,c + 2 more...", "Ports": "80, 443"},
        ),
        (
            "Endpoints",
            {
                "subsets": [
                    {"addresses": [{"ip": f"1.1.1.{n}"} for n in range(4)], "ports": [{"port": 9}]}
                ]
            },
            {"Endpoints": "1.1.1.0:9,1.1.1.1:9,1.1.1.2:9 + 1 more..."},
        ),
        (
            "EndpointSlice",
            {"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["b"]}]},
            {"Ports": "80", "Endpoints": "b"},
        ),
        (
            "Node",
            {
                "metadata": {"name": "a", "labels": {"node-role.kubernetes.io/control-plane": ""}},
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "9.9.9.9"}],
                },
            },
            {
                "Status": "Ready,SchedulingDisabled",
                "Roles": "control-plane",
                "Internal-IP": "9.9.9.9",
                "External-IP": "<none>",
                "OS-Image": "<unknown>",
            },
        ),
        (
            "PersistentVolumeClaim",
            {
                "spec": {"volumeName": "v", "storageClassName": "s"},
                "status": {
                    "phase": "Bound",
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                },
            },
            {
                "Status": "Bound",
                "Volume": "v",
                "Capacity": "1Gi",
                "Access Modes": "RWO",
                "StorageClass": "s",
                "VolumeAttributesClass": "<unset>",
            },
        ),
        (
            "StorageClass",
            {
                "metadata": {
                    "name": "a",
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": "p",
            },
            {"Name": "a (default)", "ReclaimPolicy": "Delete", "AllowVolumeExpansion": "false"},
        ),
        (
            "ResourceQuota",
            {"status": {"hard": {"pods": "4", "limits.cpu": "2"}, "used": {"pods": "1"}}},
            {"Request": "pods: 1/4", "Limit": "limits.cpu: 0/2"},
        ),
        (
            "RoleBinding",
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "u"},
                    {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                ],
            },
            {"Role": "Role/r", "Users": "u", "Groups": "", "ServiceAccounts": "n/s"},
        ),
        (
            "HorizontalPodAutoscaler",
            {
                "spec": {
                    "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                    "maxReplicas": 3,
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {
                                "name": "cpu",
                                "target": {"type": "Utilization", "averageUtilization": 80},
                            },
                        }
                    ],
                }
            },
            {"Reference": "Deployment/d", "Targets": "cpu: <unknown>/80%", "MinPods": "<unset>"},
        ),
        (
            "Event",
            {
                "type": "Normal",
                "reason": "R",
                "message": " said \n",
                "involvedObject": {"kind": "Pod", "name": "p"},
                "reportingComponent": "me",
                "lastTimestamp": "2999-01-01T00:00:00Z",
            },
            {"Object": "pod/p", "Message": "said", "Source": "me", "Count": "1"},
        ),
        (
            "PodDisruptionBudget",
            {"spec": {"minAvailable": 1}},
            {"Min Available": "1", "Max Unavailable": "N/A", "Allowed Disruptions": 0},
        ),
        ("PriorityClass", {"value": 5}, {"Value": 5, "Global-Default": False}),
    ],
)
def test_cells_are_those_of_the_real_server(kind: str, body: Any, cells: dict[str, Any]) -> None:
    shown = row(kind, body)

    assert {name: shown[name] for name in cells} == cells


@given(st.integers(0, 10**10))
def test_lengths_of_time_take_two_units_at_most(seconds: int) -> None:
    text = span(seconds)

    assert len(text) <= 8
    assert sum(letter.isalpha() for letter in text) <= 2
