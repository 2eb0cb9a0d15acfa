"""Which user a client is and what it may do: tokens of service accounts, and the reviews."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from envtest import ControlPlane, User
from tests.envtest.conftest import create_admin_client

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
RIGHTS = "/apis/authorization.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
UNKNOWN = {"user": {}, "error": "invalid bearer token"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The administrator; there is a service account bob, and a user joe without rights."""
    async with (
        ControlPlane.start(force_embedded=True, tokens={"t": User("joe", (), "7")}) as plane,
        create_admin_client(plane) as admin,
    ):
        await admin.post(ACCOUNTS, json={"metadata": {"name": "bob"}})
        yield admin


async def create_token(http: httpx.AsyncClient, **spec: Any) -> str:
    answer = await http.post(f"{ACCOUNTS}/bob/token", json={"spec": spec})
    return str(answer.json()["status"]["token"])


async def review_token(http: httpx.AsyncClient, token: str, *audiences: str) -> Any:
    spec = {"token": token, "audiences": list(audiences)}
    return (await http.post(TOKENS, json={"spec": spec})).json()["status"]


async def test_a_token_authenticates_its_account_until_the_account_is_deleted(
    http: httpx.AsyncClient,
) -> None:
    issued_token = await create_token(http)
    known = await review_token(http, issued_token)
    forged = await review_token(http, issued_token[:-4] + "AAAA")
    await http.delete(f"{ACCOUNTS}/bob")
    late = await review_token(http, issued_token)

    assert known["authenticated"]
    assert known["user"]["username"] == "system:serviceaccount:default:bob"
    assert known["user"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    assert list(known["user"]["extra"]) == ["authentication.kubernetes.io/credential-id"]
    assert forged == UNKNOWN
    assert late["error"] == '[invalid bearer token, serviceaccounts "bob" not found]'


async def test_a_token_request_is_answered_with_audiences_and_expiry(
    http: httpx.AsyncClient,
) -> None:
    null = {"spec": {"expirationSeconds": None}}
    body = (await http.post(f"{ACCOUNTS}/bob/token", json=null)).json()

    assert body["metadata"].pop("creationTimestamp")
    assert body["metadata"] == {"name": "bob", "namespace": "default"}
    assert body["spec"] == {
        "audiences": [str(http.base_url)],
        "expirationSeconds": 3600,
        "boundObjectRef": None,
    }


@pytest.mark.parametrize(
    ("spec", "code", "part"),
    [
        ({"expirationSeconds": 5}, 422, "must be between 600 and 4294967296 seconds"),
        ({"expirationSeconds": 1 << 33}, 422, "must be between 600 and 4294967296 seconds"),
        ({"expirationSeconds": "x"}, 400, "cannot unmarshal string"),
        ({"audiences": "x"}, 400, "cannot unmarshal string"),
        (
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}},
            400,
            "tokens that are bound to an object are not served",
        ),
    ],
)
async def test_a_token_request_without_sense_is_refused(
    http: httpx.AsyncClient, spec: Any, code: int, part: str
) -> None:
    answer = await http.post(f"{ACCOUNTS}/bob/token", json={"spec": spec})

    assert answer.status_code == code
    assert part in answer.json()["message"]


async def test_a_token_is_valid_for_its_audiences_only(http: httpx.AsyncClient) -> None:
    issued_token = await create_token(http, audiences=["vault", "bank"])
    vault = await review_token(http, issued_token, "vault", "other")
    other = await review_token(http, issued_token, "other")
    here = await http.get("/api/v1/nodes", headers={"Authorization": f"Bearer {issued_token}"})

    assert (vault["authenticated"], vault["audiences"]) == (True, ["vault"])
    assert other["error"] == (
        '[invalid bearer token, token audiences ["vault" "bank"] is invalid for the target '
        'audiences ["other"]]'
    )
    assert here.status_code == 401


async def test_a_static_token_is_valid_for_this_servers_audience_only(
    http: httpx.AsyncClient,
) -> None:
    here = await review_token(http, "t", str(http.base_url), "other")
    elsewhere = await review_token(http, "t", "other")

    assert here["audiences"] == [str(http.base_url)]
    assert elsewhere == UNKNOWN


async def test_access_reviews_name_the_binding_that_allows(http: httpx.AsyncClient) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    await http.post(f"{RBAC}/clusterroles", json={"metadata": {"name": "r"}, "rules": rules})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "bob"}],
    }
    await http.post(f"{RBAC}/namespaces/default/rolebindings", json=binding)
    bob = "system:serviceaccount:default:bob"
    asked = {"verb": "get", "resource": "pods", "namespace": "default"}
    statuses = []
    for spec in (
        {"user": bob, "resourceAttributes": asked},
        {"user": bob, "resourceAttributes": {**asked, "namespace": "other"}},
        {"groups": ["system:masters"], "resourceAttributes": asked},
    ):
        answer = await http.post(f"{RIGHTS}/subjectaccessreviews", json={"spec": spec})
        statuses.append(answer.json()["status"])

    by = 'RBAC: allowed by RoleBinding "b/default" of ClusterRole "r" to '
    by += 'ServiceAccount "bob/default"'
    assert statuses == [{"allowed": True, "reason": by}, {"allowed": False}, {"allowed": True}]


@pytest.mark.parametrize(
    ("plural", "spec", "part"),
    [
        ("subjectaccessreviews", {"user": "x"}, "exactly one of nonResourceAttributes or"),
        (
            "subjectaccessreviews",
            {"resourceAttributes": {}},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
        (
            "selfsubjectaccessreviews",
            {"resourceAttributes": {}, "nonResourceAttributes": {}},
            "cannot be specified in combination with resourceAttributes",
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            {"user": "x", "resourceAttributes": {"namespace": "other"}},
            "must match metadata.namespace",
        ),
    ],
)
async def test_a_review_without_sense_is_refused(
    http: httpx.AsyncClient, plural: str, spec: Any, part: str
) -> None:
    answer = await http.post(f"{RIGHTS}/{plural}", json={"spec": spec})

    assert answer.status_code == 422
    assert part in answer.json()["message"]


async def test_a_rules_review_lists_the_permissions_of_a_user(http: httpx.AsyncClient) -> None:
    joe = {"Authorization": "Bearer t"}
    path = f"{RIGHTS}/selfsubjectrulesreviews"
    response = await http.post(path, json={"spec": {"namespace": "default"}}, headers=joe)
    nowhere = await http.post(path, json={"spec": {}}, headers=joe)

    listed = [
        resource_rule["resources"] for resource_rule in response.json()["status"]["resourceRules"]
    ]
    assert sorted(listed) == [
        ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ["selfsubjectreviews"],
    ]
    assert nowhere.status_code == 400


@pytest.mark.parametrize(
    ("headers", "path", "code"),
    [
        ({}, "/api/v1/nodes", 403),
        ({}, "/healthz", 200),
        ({}, "/livez", 200),
        ({}, "/readyz", 200),
        ({}, "/version", 200),
        ({}, "/apis", 403),
        ({"Authorization": "Bearer wrong"}, "/readyz", 401),
        ({"Authorization": "Basic YTpi"}, "/api/v1/nodes", 403),
        ({"Authorization": "bearer t"}, "/apis", 200),
    ],
)
async def test_strangers_are_anonymous_and_wrong_tokens_are_refused(
    http: httpx.AsyncClient, headers: dict[str, str], path: str, code: int
) -> None:
    http.headers.pop("Authorization")

    assert (await http.get(path, headers=headers)).status_code == code


async def test_a_rules_review_lists_every_rule_once_and_roles_that_are_not_there(
    http: httpx.AsyncClient,
) -> None:
    spec = {"spec": {"namespace": "default"}}
    plural = f"{RIGHTS}/selfsubjectrulesreviews"
    status = (await http.post(plural, json=spec)).json()["status"]
    subject = {"kind": "User", "name": "joe", "apiGroup": "rbac.authorization.k8s.io"}
    for name in ("a", "b"):
        binding = {
            "metadata": {"name": name},
            "roleRef": {"kind": "ClusterRole", "name": name},
            "subjects": [subject],
        }
        await http.post(f"{RBAC}/clusterrolebindings", json=binding)
    joe = await http.post(plural, json=spec, headers={"Authorization": "Bearer t"})

    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert status["resourceRules"].count(everything) == 1
    assert status["nonResourceRules"].count({"verbs": ["*"], "nonResourceURLs": ["*"]}) == 1
    assert (status["incomplete"], status.get("evaluationError")) == (False, None)
    lost = 'clusterrole.rbac.authorization.k8s.io "{}" not found'
    assert joe.json()["status"]["evaluationError"] == f"[{lost.format('a')}, {lost.format('b')}]"
