"""Acting as somebody else for single deeds only."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from envtest import ControlPlane, User
from tests.envtest.conftest import admin_client

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
JOE = {"Authorization": "Bearer t"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The administrator; JOE is somebody without rights."""
    async with (
        ControlPlane.start(force_embedded=True, tokens={"t": User("joe")}) as plane,
        admin_client(plane) as admin,
    ):
        yield admin


async def who(http: httpx.AsyncClient, headers: Mapping[str, str] | list[tuple[str, str]]) -> Any:
    answer = await http.post(WHO, json={}, headers=headers)
    return answer.json()["status"]["userInfo"]


async def bind(http: httpx.AsyncClient, name: str, *rules: dict[str, Any]) -> None:
    """Give a user some rights everywhere."""
    role = {"metadata": {"name": "given"}, "rules": list(rules)}
    await http.post(f"{RBAC}/clusterroles", json=role)
    binding = {
        "metadata": {"name": "given"},
        "roleRef": {"kind": "ClusterRole", "name": "given"},
        "subjects": [{"kind": "User", "name": name}],
    }
    await http.post(f"{RBAC}/clusterrolebindings", json=binding)


def right(verb: str, resource: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": [verb], **more}


AUTH = "authentication.k8s.io"


@pytest.mark.parametrize(
    ("name", "mode"),
    [("ann", "user-info"), ("system:serviceaccount:a:b", "serviceaccount")],
)
async def test_who_may_act_as_nobody_is_told_of_the_right_to_do_this(
    http: httpx.AsyncClient, name: str, mode: str
) -> None:
    answer = await http.get(MAPS, headers={**JOE, "Impersonate-User": name})
    path = await http.get("/metrics", headers={**JOE, "Impersonate-User": name})

    assert answer.status_code == 403
    assert answer.json()["message"] == (
        f'configmaps is forbidden: User "joe" cannot impersonate-on:{mode}:list resource '
        '"configmaps" in API group "" in the namespace "default"'
    )
    assert path.json()["message"] == (
        f'forbidden: User "joe" cannot impersonate-on:{mode}:get path "/metrics"'
    )


async def test_acting_as_somebody_can_be_allowed_for_single_deeds(
    http: httpx.AsyncClient,
) -> None:
    await bind(
        http,
        "joe",
        right("impersonate:user-info", "users", AUTH, resourceNames=["ann"]),
        right("impersonate-on:user-info:list", "configmaps"),
    )
    ann = {**JOE, "Impersonate-User": "ann"}
    listed = await http.get(MAPS, headers=ann)
    read = await http.get(f"{MAPS}/x", headers=ann)
    other = await http.get(MAPS, headers={**JOE, "Impersonate-User": "bob"})
    grouped = await http.get(MAPS, headers={**ann, "Impersonate-Group": "g"})

    assert [one.json()["message"] for one in (listed, read, other, grouped)] == [
        # She is asked for, and may not do it herself.
        (
            'configmaps is forbidden: User "ann" cannot list resource "configmaps" '
            'in API group "" in the namespace "default"'
        ),
        (
            'configmaps "x" is forbidden: User "joe" cannot impersonate-on:user-info:get '
            'resource "configmaps" in API group "" in the namespace "default"'
        ),
        (
            'users.authentication.k8s.io "bob" is forbidden: User "joe" cannot '
            'impersonate:user-info resource "users" in API group "authentication.k8s.io" '
            "at the cluster scope"
        ),
        (
            'groups.authentication.k8s.io "g" is forbidden: User "joe" cannot '
            'impersonate:user-info resource "groups" in API group "authentication.k8s.io" '
            "at the cluster scope"
        ),
    ]


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"Impersonate-Group": "system:masters"}, "the system:masters group is not allowed"),
        (
            {"Impersonate-Extra-Scopes": "all"},
            (
                "an invalid key in extra is not allowed: extra.key: Invalid value: "
                '"scopes": must be a domain-prefixed path (such as "acme.io/foo")'
            ),
        ),
    ],
)
async def test_some_things_are_never_allowed_that_way(
    http: httpx.AsyncClient, headers: dict[str, str], why: str
) -> None:
    await bind(
        http,
        "joe",
        right("impersonate:user-info", "*", AUTH),
        right("impersonate-on:user-info:list", "configmaps"),
    )
    answer = await http.get(MAPS, headers={**JOE, "Impersonate-User": "ann", **headers})

    assert answer.status_code == 403
    assert answer.json()["message"].endswith(f": impersonating {why}")


async def test_the_right_to_all_groups_is_asked_for_many(http: httpx.AsyncClient) -> None:
    await bind(
        http,
        "joe",
        right("impersonate:user-info", "users", AUTH),
        right("impersonate:user-info", "groups", AUTH, resourceNames=["*"]),
        right("impersonate-on:user-info:create", "selfsubjectreviews", AUTH),
    )
    few = [("Impersonate-Group", name) for name in "abc"]
    base = [*JOE.items(), ("Impersonate-User", "ann")]
    refused = await http.post(WHO, json={}, headers=[*base, *few])
    found = await who(http, [*base, *few, ("Impersonate-Group", "d")])

    assert refused.status_code == 403
    assert found["groups"] == ["a", "b", "c", "d", "system:authenticated"]


async def test_nodes_have_their_group(http: httpx.AsyncClient) -> None:
    found = await who(http, {"Impersonate-User": "system:node:n1"})

    assert found["groups"] == ["system:nodes", "system:authenticated"]


async def test_an_account_on_a_node_may_act_as_that_node(http: httpx.AsyncClient) -> None:
    await bind(
        http,
        "system:serviceaccount:default:agent",
        right("impersonate:associated-node", "nodes", AUTH),
        right("impersonate-on:associated-node:create", "selfsubjectreviews", AUTH),
    )
    home = "/api/v1/namespaces/default"
    await http.post("/api/v1/nodes", json={"metadata": {"name": "n1"}})
    await http.post(f"{home}/serviceaccounts", json={"metadata": {"name": "agent"}})
    spec = {
        "serviceAccountName": "agent",
        "nodeName": "n1",
        "containers": [{"name": "a", "image": "b"}],
    }
    await http.post(f"{home}/pods", json={"metadata": {"name": "p"}, "spec": spec})
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    answer = await http.post(
        f"{home}/serviceaccounts/agent/token", json={"spec": {"boundObjectRef": reference}}
    )
    agent = {"Authorization": f"Bearer {answer.json()['status']['token']}"}
    own = await who(http, {**agent, "Impersonate-User": "system:node:n1"})
    other = await http.post(WHO, json={}, headers={**agent, "Impersonate-User": "system:node:n2"})

    assert own["username"] == "system:node:n1"
    assert other.json()["message"].startswith(
        "selfsubjectreviews.authentication.k8s.io is forbidden: User "
        '"system:serviceaccount:default:agent" cannot impersonate-on:arbitrary-node:create'
    )
