"""Kinds that components of a cluster serve: stored with their defaults, judged, shown."""

from typing import Any

import httpx
import pytest

from tests.envtest.components import (
    ADMISSION,
    DEVICES,
    FLOWS,
    LEAST,
    NETWORKS,
    REGISTRATION,
    STORAGE,
    named,
)

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
MERGE = {"Content-Type": "application/merge-patch+json"}


async def made(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await http.post(path, json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_the_least_of_each_kind_is_taken_kept_and_shown(http: httpx.AsyncClient) -> None:
    for path, body in LEAST.items():
        first = await made(http, path, named("a", body))
        again = await http.put(f"{path}/a", json=first)
        assert again.json() == first, path
        table = (await http.get(path, headers=TABLE)).json()
        rows = [row["cells"] for row in table["rows"]]
        assert all(len(row) == len(table["columnDefinitions"]) for row in rows), path
        assert (await http.delete(f"{path}/a")).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "part", "expected"),
    [
        (
            f"{STORAGE}/csidrivers",
            {},
            "spec",
            {
                "attachRequired": True,
                "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "podInfoOnMount": False,
                "requiresRepublish": False,
                "seLinuxMount": False,
                "storageCapacity": False,
                "volumeLifecycleModes": ["Persistent"],
            },
        ),
        (f"{STORAGE}/storageclasses", {"provisioner": "p"}, "volumeBindingMode", "Immediate"),
        (f"{STORAGE}/storageclasses", {"provisioner": "p"}, "reclaimPolicy", "Delete"),
        (
            f"{STORAGE}/volumeattachments",
            LEAST[f"{STORAGE}/volumeattachments"],
            "status",
            {"attached": False},
        ),
        (
            f"{FLOWS}/flowschemas",
            LEAST[f"{FLOWS}/flowschemas"],
            "spec",
            {"matchingPrecedence": 1000, "priorityLevelConfiguration": {"name": "exempt"}},
        ),
        (
            f"{FLOWS}/prioritylevelconfigurations",
            {
                "spec": {
                    "type": "Limited",
                    "limited": {"limitResponse": {"type": "Queue", "queuing": {}}},
                }
            },
            "spec",
            {
                "type": "Limited",
                "limited": {
                    "nominalConcurrencyShares": 30,
                    "lendablePercent": 0,
                    "limitResponse": {
                        "type": "Queue",
                        "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50},
                    },
                },
            },
        ),
        (
            f"{ADMISSION}/validatingadmissionpolicybindings",
            {
                "spec": {
                    "policyName": "p",
                    "validationActions": ["Warn"],
                    "matchResources": {},
                }
            },
            "spec",
            {
                "policyName": "p",
                "validationActions": ["Warn"],
                "matchResources": {
                    "matchPolicy": "Equivalent",
                    "namespaceSelector": {},
                    "objectSelector": {},
                },
            },
        ),
        (
            f"{NETWORKS}/ingressclasses",
            {"spec": {"controller": "e.io/c", "parameters": {"kind": "K", "name": "n"}}},
            "spec",
            {
                "controller": "e.io/c",
                "parameters": {"kind": "K", "name": "n", "scope": "Cluster"},
            },
        ),
        (
            f"{DEVICES}/namespaces/default/resourceclaims",
            {
                "spec": {
                    "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}
                }
            },
            "spec",
            {
                "devices": {
                    "requests": [
                        {
                            "name": "r",
                            "exactly": {
                                "allocationMode": "ExactCount",
                                "count": 1,
                                "deviceClassName": "c",
                            },
                        }
                    ]
                }
            },
        ),
    ],
)
async def test_what_is_left_out_is_filled_in(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], part: str, expected: object
) -> None:
    assert (await made(http, path, named("a", body)))[part] == expected


async def test_mandatory_flows_and_levels_cannot_be_changed(http: httpx.AsyncClient) -> None:
    for path in (f"{FLOWS}/flowschemas/exempt", f"{FLOWS}/prioritylevelconfigurations/catch-all"):
        live = (await http.get(path)).json()
        spec = live["spec"]
        if "limited" in spec:
            spec["limited"]["nominalConcurrencyShares"] = 9
        else:
            spec["rules"] = []
        name = live["metadata"]["name"]

        refused = await http.put(path, json=live)

        assert refused.status_code == 422
        assert f"spec of '{name}' must equal the fixed value" in refused.json()["message"]


async def test_what_every_server_has_comes_back_when_it_is_deleted(
    http: httpx.AsyncClient,
) -> None:
    for path in (
        f"{FLOWS}/flowschemas/probes",
        f"{FLOWS}/prioritylevelconfigurations/system",
        f"{NETWORKS}/servicecidrs/kubernetes",
    ):
        first = (await http.get(path)).json()
        assert (await http.delete(path)).status_code == 200

        again = (await http.get(path)).json()
        assert again["spec"] == first["spec"]
        assert again["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_flow_says_whether_its_level_is_there(http: httpx.AsyncClient) -> None:
    flow = {"spec": {"priorityLevelConfiguration": {"name": "mine"}}}
    level = LEAST[f"{FLOWS}/prioritylevelconfigurations"]
    seen = [await made(http, f"{FLOWS}/flowschemas", named("a", flow))]
    await made(http, f"{FLOWS}/prioritylevelconfigurations", named("mine", level))
    seen.append((await http.get(f"{FLOWS}/flowschemas/a")).json())
    await http.delete(f"{FLOWS}/prioritylevelconfigurations/mine")
    seen.append((await http.get(f"{FLOWS}/flowschemas/a")).json())

    told = 'This FlowSchema references the PriorityLevelConfiguration object named "mine"'
    conditions = [one["status"]["conditions"] for one in seen]
    assert [(one["status"], one["reason"], one["message"]) for [one] in conditions] == [
        ("True", "NotFound", f"{told} but there is no such object"),
        ("False", "Found", f"{told} and it exists"),
        ("True", "NotFound", f"{told} but there is no such object"),
    ]


async def test_whoever_makes_a_policy_is_told_that_it_is_not_enforced(
    http: httpx.AsyncClient,
) -> None:
    for plural, kind in (
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    ):
        path = f"{ADMISSION}/{plural}"
        answer = await http.post(path, json=named("a", LEAST[path]))
        text = f"this server stores {kind} objects, but does not enforce them"
        assert answer.headers["Warning"] == f'299 - "{text}"'


async def test_a_status_is_written_by_its_own_path_only(http: httpx.AsyncClient) -> None:
    path = f"{STORAGE}/volumeattachments"
    body = await made(http, path, named("a", LEAST[path]))
    attached = {**body, "status": {"attached": True}, "spec": {}}

    other = await http.patch(f"{path}/a", json={"status": {"attached": True}}, headers=MERGE)
    own = await http.put(f"{path}/a/status", json=attached)

    assert other.json()["status"] == {"attached": False}
    assert own.status_code == 200, own.text
    assert own.json()["status"] == {"attached": True}
    assert own.json()["spec"] == body["spec"]


async def test_lists_are_merged_by_the_keys_that_their_schemas_name(
    http: httpx.AsyncClient,
) -> None:
    path = f"{STORAGE}/csinodes"
    await made(http, path, named("a", LEAST[path]))
    strategic = {"Content-Type": "application/strategic-merge-patch+json"}
    applied = {"Content-Type": "application/apply-patch+yaml"}
    other = {"spec": {"drivers": [{"name": "e.example.com", "nodeID": "e", "topologyKeys": []}]}}
    own = {"name": "f.example.com", "nodeID": "f"}
    sent = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "spec": {"drivers": [own]}}

    await http.patch(f"{path}/a", json=other, headers=strategic)
    body = (
        await http.patch(
            f"{path}/a", json=sent, headers=applied, params={"fieldManager": "m", "force": "true"}
        )
    ).json()

    names = {one["name"] for one in body["spec"]["drivers"]}
    assert names == {"d.example.com", "e.example.com", "f.example.com"}
    [entry] = [one for one in body["metadata"]["managedFields"] if one["manager"] == "m"]
    key = 'k:{"name":"f.example.com"}'
    assert entry["fieldsV1"]["f:spec"]["f:drivers"].keys() == {key}


async def test_conditions_that_somebody_left_half_empty_are_shown(
    http: httpx.AsyncClient,
) -> None:
    path = f"{REGISTRATION}/apiservices"
    body = (await http.get(f"{path}/v1.apps")).json()
    body["status"] = {"conditions": [{"status": "False"}]}

    assert (await http.put(f"{path}/v1.apps/status", json=body)).status_code == 200
    row = (await http.get(f"{path}/v1.apps", headers=TABLE)).json()["rows"][0]

    assert row["cells"][:3] == ["v1.apps", "Local", "Unknown"]


async def test_generations_are_counted_where_the_registry_counts_them(
    http: httpx.AsyncClient,
) -> None:
    for path, patch, expected in (
        # Of drivers, only changes are counted.
        (f"{STORAGE}/csidrivers", {"spec": {"podInfoOnMount": True}}, (None, 1)),
        (f"{FLOWS}/flowschemas", {"spec": {"matchingPrecedence": 7}}, (1, 2)),
        (f"{STORAGE}/storageclasses", {"allowVolumeExpansion": True}, (None, None)),
        (f"{DEVICES}/deviceclasses", {"spec": {"selectors": [{"cel": {}}]}}, (1, 2)),
    ):
        first = await made(http, path, named("a", LEAST[path]))
        labelled = {"metadata": {"labels": {"a": "b"}}}
        await http.patch(f"{path}/a", json=labelled, headers=MERGE)
        then = (await http.patch(f"{path}/a", json=patch, headers=MERGE)).json()

        found = tuple(one["metadata"].get("generation") for one in (first, then))
        assert found == expected, path
