"""What `kubectl get` shows of built-in kinds."""

from typing import Any

import pytest

from envtest.builtins.columns import list_builtin_columns
from envtest.kinds.catalogue import list_resources

KINDS = sorted(
    {
        entry["kind"]
        for entries in list_resources().values()
        for entry in entries
        if "get" in entry["verbs"] and "/" not in entry["name"]
    }
)


def build_row(kind: str, body: Any) -> dict[str, Any]:
    """Return the cells of a row by the names of their columns."""
    whole = {"metadata": {"name": "a"}, **body}
    return {column.name: cell(whole) for column, cell in list_builtin_columns(kind)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_bare_object_of_every_kind_has_a_row(kind: str) -> None:
    cells = build_row(kind, {})

    assert next(iter(cells)) == ("Last Seen" if kind == "Event" else "Name")
    for column, _ in list_builtin_columns(kind):
        expected = {"integer": int, "boolean": bool}.get(column.type)
        if expected and column.name != "Suspend":
            assert isinstance(cells[column.name], expected), column.name


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
    ],
)
def test_cells_are_those_of_the_real_server(kind: str, body: Any, cells: dict[str, Any]) -> None:
    shown_cells = build_row(kind, body)

    assert {name: shown_cells[name] for name in cells} == cells
