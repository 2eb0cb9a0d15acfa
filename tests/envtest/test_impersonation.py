"""Acting as another user, and the right to do so."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from envtest import ControlPlane, User
from tests.envtest.conftest import create_admin_client

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
JOE = {"Authorization": "Bearer t"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The administrator; JOE is a user without rights."""
    async with (
        ControlPlane.start(force_embedded=True, tokens={"t": User("joe")}) as plane,
        create_admin_client(plane) as admin,
    ):
        yield admin


async def read_user_info(
    http: httpx.AsyncClient, headers: Mapping[str, str] | list[tuple[str, str]]
) -> Any:
    answer = await http.post(WHO, json={}, headers=headers)
    return answer.json()["status"]["userInfo"]


async def test_the_impersonated_user_has_name_groups_uid_and_extra(
    http: httpx.AsyncClient,
) -> None:
    headers = [
        ("Impersonate-User", "ann"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Team%2Fcolour", "red"),
        ("Impersonate-Extra-Team%2Fcolour", "blue"),
    ]

    assert await read_user_info(http, headers) == {
        "username": "ann",
        "uid": "7",
        "groups": ["a", "b", "system:authenticated"],
        "extra": {"team/colour": ["red", "blue"]},
    }


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        (
            "system:serviceaccount:a:b",
            ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"],
        ),
        ("system:anonymous", ["system:unauthenticated"]),
        ("ann", ["system:authenticated"]),
    ],
)
async def test_groups_that_a_name_implies_are_added(
    http: httpx.AsyncClient, name: str, groups: list[str]
) -> None:
    # The anonymous user may review nothing, so its groups are read from its refusal.
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await http.post(f"{RBAC}/clusterroles", json={"metadata": {"name": "all"}, "rules": rules})
    binding = {
        "metadata": {"name": "all"},
        "roleRef": {"kind": "ClusterRole", "name": "all"},
        "subjects": [{"kind": "User", "name": "system:anonymous"}],
    }
    await http.post(f"{RBAC}/clusterrolebindings", json=binding)

    shown_user = await read_user_info(http, {"Impersonate-User": name})

    assert (shown_user["username"], shown_user["groups"]) == (name, groups)


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        (
            {"Impersonate-User": "ann"},
            (
                'users "ann" is forbidden: User "joe" cannot impersonate resource "users" '
                'in API group "" at the cluster scope'
            ),
        ),
        (
            {"Impersonate-User": "system:serviceaccount:a:b"},
            (
                'serviceaccounts "b" is forbidden: User "joe" cannot impersonate resource '
                '"serviceaccounts" in API group "" in the namespace "a"'
            ),
        ),
        (
            {"Impersonate-User": "bob", "Impersonate-Group": "g"},
            (
                'groups "g" is forbidden: User "joe" cannot impersonate resource "groups" '
                'in API group "" at the cluster scope'
            ),
        ),
        (
            {"Impersonate-User": "bob", "Impersonate-Extra-Scopes": "all"},
            (
                'userextras.authentication.k8s.io "all" is forbidden: User "joe" cannot '
                'impersonate resource "userextras/scopes" in API group "authentication.k8s.io" '
                "at the cluster scope"
            ),
        ),
        (
            {"Impersonate-User": "bob", "Impersonate-Uid": "7"},
            (
                'uids.authentication.k8s.io "7" is forbidden: User "joe" cannot impersonate '
                'resource "uids" in API group "authentication.k8s.io" at the cluster scope'
            ),
        ),
    ],
)
async def test_each_part_of_another_identity_needs_a_right(
    http: httpx.AsyncClient, headers: dict[str, str], refused: str
) -> None:
    rule = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}
    role = {"metadata": {"name": "bob"}, "rules": [{**rule, "resourceNames": ["bob"]}]}
    await http.post(f"{RBAC}/clusterroles", json=role)
    binding = {
        "metadata": {"name": "bob"},
        "roleRef": {"kind": "ClusterRole", "name": "bob"},
        "subjects": [{"kind": "User", "name": "joe"}],
    }
    await http.post(f"{RBAC}/clusterrolebindings", json=binding)

    config_map = await http.get(MAPS, headers={**JOE, "Impersonate-User": "bob"})
    answer = await http.get(MAPS, headers={**JOE, **headers})

    assert (answer.status_code, answer.json()["message"]) == (403, refused)
    assert config_map.json()["message"].startswith(
        'configmaps is forbidden: User "bob" cannot list'
    )


@pytest.mark.parametrize("headers", [{"Impersonate-Group": "g"}, {"Impersonate-Uid": "7"}])
async def test_groups_and_the_like_without_a_user_are_an_error(
    http: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await http.get(MAPS, headers=headers)

    assert answer.status_code == 400
    assert answer.json()["message"].endswith("without impersonating a user name")
