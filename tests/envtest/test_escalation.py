"""Nobody hands out rights that they do not hold."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest import ControlPlane, User
from envtest.access.coverage import described, missing
from tests.envtest.conftest import admin_client

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
JOE = {"Authorization": "Bearer t"}
MERGE = {"Content-Type": "application/merge-patch+json"}


def rule(*verbs: str, resource: str = "configmaps", group: str = "", **more: Any) -> Any:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


def role(name: str, *rules: Any) -> Any:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, user: str = "ann", *, kind: str = "Role", to: str = "") -> Any:
    return {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": to or name},
        "subjects": [{"kind": "User", "name": user}],
    }


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The administrator; JOE may write roles and bindings and read config maps."""
    async with (
        ControlPlane.start(
            force_embedded=True, tokens={"t": User("joe", ("devs", "ops"))}
        ) as plane,
        admin_client(plane) as admin,
    ):
        manage = rule("*", group="rbac.authorization.k8s.io")
        manage["resources"] = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]
        manage["verbs"] = ["create", "update", "patch", "get"]
        await admin.post(f"{RBAC}/clusterroles", json=role("joe", manage, rule("get", "list")))
        bound = binding("joe", "joe", kind="ClusterRole")
        await admin.post(f"{RBAC}/clusterrolebindings", json=bound)
        yield admin


async def allow(http: httpx.AsyncClient, *rules: Any) -> None:
    """Give joe more rights in the namespace."""
    await http.post(ROLES, json=role("more", *rules))
    await http.post(BINDINGS, json=binding("more", "joe"))


async def test_a_role_with_the_authors_own_rights_is_made(http: httpx.AsyncClient) -> None:
    answer = await http.post(ROLES, json=role("r", rule("list")), headers=JOE)

    assert answer.status_code == 201


async def test_a_role_with_more_rights_is_refused_naming_them(http: httpx.AsyncClient) -> None:
    wanted = role(
        "r",
        rule("get", "watch", "delete"),
        rule("get", resource="secrets", resourceNames=["s"]),
    )
    answer = await http.post(ROLES, json=wanted, headers=JOE)

    assert answer.status_code == 403
    assert answer.json()["message"] == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "joe" '
        '(groups=["devs" "ops" "system:authenticated"]) is attempting to grant RBAC permissions '
        "not currently held:\n"
        '{APIGroups:[""], Resources:["configmaps"], Verbs:["watch" "delete"]}\n'
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["s"], Verbs:["get"]}'
    )
    assert (await http.get(f"{ROLES}/r")).status_code == 404


async def test_paths_can_be_granted_by_who_has_them_only(http: httpx.AsyncClient) -> None:
    wanted = role("r", {"nonResourceURLs": ["/metrics"], "verbs": ["get"]})
    answer = await http.post(f"{RBAC}/clusterroles", json=wanted, headers=JOE)

    assert answer.json()["message"].endswith('\n{NonResourceURLs:["/metrics"], Verbs:["get"]}')


async def test_an_update_may_not_widen_a_role_but_may_leave_it_as_wide(
    http: httpx.AsyncClient,
) -> None:
    await http.post(ROLES, json=role("r", rule("delete")))
    path = f"{ROLES}/r"
    labels = {"metadata": {"labels": {"a": "b"}}}
    labelled = await http.patch(path, json=labels, headers={**JOE, **MERGE})
    wider = {"rules": [rule("delete", "watch")]}
    widened = await http.patch(path, json=wider, headers={**JOE, **MERGE})

    assert (labelled.status_code, widened.status_code) == (200, 403)
    assert (await http.get(path)).json()["rules"] == [rule("delete")]


async def test_whoever_may_escalate_may_grant_anything(http: httpx.AsyncClient) -> None:
    await allow(http, rule("escalate", resource="roles", group="rbac.authorization.k8s.io"))

    answer = await http.post(ROLES, json=role("r", rule("*", resource="*")), headers=JOE)

    assert answer.status_code == 201


async def test_whoever_may_escalate_one_role_may_not_make_it(http: httpx.AsyncClient) -> None:
    right = rule("escalate", resource="roles", group="rbac.authorization.k8s.io")
    await allow(http, {**right, "resourceNames": ["r"]})

    made = await http.post(ROLES, json=role("r", rule("delete")), headers=JOE)
    await http.post(ROLES, json=role("r", rule("get")))
    wider = {"rules": [rule("delete")]}
    widened = await http.patch(f"{ROLES}/r", json=wider, headers={**JOE, **MERGE})

    assert (made.status_code, widened.status_code) == (403, 200)


async def test_an_aggregation_rule_needs_all_rights(http: httpx.AsyncClient) -> None:
    chosen = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    body = {"metadata": {"name": "r"}, "aggregationRule": chosen}

    answer = await http.post(f"{RBAC}/clusterroles", json=body, headers=JOE)

    assert answer.json()["message"] == (
        'clusterroles.rbac.authorization.k8s.io "r" is forbidden: '
        "must have cluster-admin privileges to use an aggregationRule"
    )


async def test_only_a_role_within_the_authors_rights_can_be_bound(
    http: httpx.AsyncClient,
) -> None:
    await http.post(ROLES, json=role("small", rule("get")))
    await http.post(ROLES, json=role("large", rule("delete")))
    small = await http.post(BINDINGS, json=binding("small"), headers=JOE)
    large = await http.post(BINDINGS, json=binding("large"), headers=JOE)
    absent = await http.post(BINDINGS, json=binding("absent"), headers=JOE)
    admin = binding("x", kind="ClusterRole", to="cluster-admin")
    highest = await http.post(f"{RBAC}/clusterrolebindings", json=admin, headers=JOE)

    codes = [one.status_code for one in (small, large, absent, highest)]
    assert codes == [201, 403, 404, 403]
    assert large.json()["message"].startswith(
        'rolebindings.rbac.authorization.k8s.io "large" is forbidden: user "joe" '
    )
    assert absent.json()["message"] == ('roles.rbac.authorization.k8s.io "absent" not found')


async def test_whoever_may_bind_a_role_need_not_hold_it(http: httpx.AsyncClient) -> None:
    await http.post(ROLES, json=role("large", rule("delete")))
    bind = rule("bind", resource="roles", group="rbac.authorization.k8s.io")
    await allow(http, {**bind, "resourceNames": ["large"]})

    answer = await http.post(BINDINGS, json=binding("large"), headers=JOE)

    assert answer.status_code == 201


async def test_a_binding_keeps_its_role(http: httpx.AsyncClient) -> None:
    await http.post(BINDINGS, json=binding("b"))
    answer = await http.patch(f"{BINDINGS}/b", json={"roleRef": {"name": "other"}}, headers=MERGE)

    assert answer.status_code == 422
    assert answer.json()["message"] == (
        'RoleBinding.rbac.authorization.k8s.io "b" is invalid: roleRef: Invalid value: '
        '{"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"other"}: '
        "cannot change roleRef"
    )


@pytest.mark.parametrize(
    ("path", "body", "part"),
    [
        (ROLES, role("r", {"apiGroups": [""], "resources": ["x"]}), "rules[0].verbs: Required"),
        (
            ROLES,
            role("r", {"nonResourceURLs": ["/x"], "verbs": ["get"]}),
            "namespaced rules cannot apply to non-resource URLs",
        ),
        (ROLES, role("r", {"verbs": ["get"]}), "must supply at least one api group"),
        (BINDINGS, binding("b", kind="Pod", to="x"), 'supported values: "Role", "ClusterRole"'),
        (BINDINGS, {**binding("b"), "subjects": [{"kind": "User"}]}, "subjects[0].name: Required"),
        (
            f"{RBAC}/clusterrolebindings",
            {
                **binding("b", kind="ClusterRole"),
                "subjects": [{"kind": "ServiceAccount", "name": "x"}],
            },
            "subjects[0].namespace: Required value",
        ),
    ],
)
async def test_a_role_or_binding_without_sense_is_refused(
    http: httpx.AsyncClient, path: str, body: Any, part: str
) -> None:
    answer = await http.post(path, json=body)

    assert answer.status_code == 422
    assert part in answer.json()["message"]


async def test_a_binding_to_nothing_is_named_in_refusals(http: httpx.AsyncClient) -> None:
    await http.post(BINDINGS, json=binding("lost", "joe"))

    answer = await http.get("/api/v1/namespaces/default/secrets", headers=JOE)

    assert answer.json()["message"] == (
        'secrets is forbidden: User "joe" cannot list resource "secrets" in API group "" in the '
        'namespace "default": RBAC: role.rbac.authorization.k8s.io "lost" not found'
    )


async def test_a_role_that_is_not_there_is_named_among_missing_rights(
    http: httpx.AsyncClient,
) -> None:
    await http.post(BINDINGS, json=binding("lost", "joe"))
    answer = await http.post(ROLES, json=role("r", rule("delete")), headers=JOE)

    assert answer.json()["message"].endswith(
        '\n{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}; resolution errors: '
        '[role.rbac.authorization.k8s.io "lost" not found]'
    )


async def test_aggregated_roles_follow_the_labels_of_others(http: httpx.AsyncClient) -> None:
    path = f"{RBAC}/clusterroles"
    part = role("part", rule("get", resource="gauges", group="lab.example.com"))
    part["metadata"]["labels"] = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}

    async def holders() -> list[str]:
        found = (await http.get(path)).json()["items"]
        return [one["metadata"]["name"] for one in found if part["rules"][0] in one["rules"]]

    before = await holders()
    await http.post(path, json=part)
    during = await holders()
    await http.delete(f"{path}/part")

    assert before == await holders() == []
    assert during == ["admin", "edit", "part", "view"]


async def test_the_default_roles_grant_what_their_names_say(http: httpx.AsyncClient) -> None:
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    granted = set()
    for name in ("view", "edit", "admin"):
        await http.post(BINDINGS, json=binding(name, name, kind="ClusterRole"))
        for verb, group, resource in (
            ("get", "", "configmaps"),
            ("get", "", "secrets"),
            ("create", "apps", "deployments"),
            ("create", "rbac.authorization.k8s.io", "roles"),
            ("create", "", "namespaces"),
        ):
            asked = {"verb": verb, "group": group, "resource": resource, "namespace": "default"}
            body = {"spec": {"user": name, "resourceAttributes": asked}}
            if (await http.post(reviews, json=body)).json()["status"]["allowed"]:
                granted.add((name, resource))

    assert granted == {
        ("view", "configmaps"),
        *(("edit", one) for one in ("configmaps", "secrets", "deployments")),
        *(("admin", one) for one in ("configmaps", "secrets", "deployments", "roles")),
    }


WORDS = st.sampled_from(["a", "b", "c", "*"])
LISTS = st.lists(WORDS, min_size=1, max_size=3)
RULES = st.fixed_dictionaries(
    {
        "apiGroups": LISTS,
        "verbs": LISTS,
        "resources": st.lists(
            st.sampled_from(["x", "x/s", "y", "*/s", "*"]), min_size=1, max_size=3
        ),
    },
    optional={"resourceNames": st.lists(st.sampled_from(["n", "m"]), max_size=2)},
)


@given(st.lists(RULES, max_size=3), st.lists(RULES, max_size=3))
def test_what_is_held_is_never_missing_and_more_rights_never_miss_more(
    held: Sequence[Any], granted: Sequence[Any]
) -> None:
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    lacking = missing(held, granted)

    assert missing(granted, granted) == []
    assert missing([everything], granted) == []
    assert missing([*held, *lacking], granted) == []
    assert len(missing([*held, *granted[:1]], granted)) <= len(lacking)
    assert bool(described(lacking)) == bool(lacking)
