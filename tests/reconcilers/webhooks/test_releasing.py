"""The annotation release-anyway takes the verb release, which the API server is asked for."""

from typing import Any

import msgspec
import pytest

from controller.client import Client
from controller.errors import ServerFailure
from controller.webhooks import AdmissionRequest, Allowed, Answer, Denied
from controller.webhooks.review import GroupVersionKind, GroupVersionResource, UserInfo
from reconcilers.api import names
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.specrules.verdict import NOTHING, Verdict
from reconcilers.webhooks import admission, releasing

Json = dict[str, Any]
MARK = {names.ANNOTATION_RELEASE_ANYWAY: "true"}
JANE = UserInfo("jane", "7", groups=("team", "system:authenticated"), extra={"scopes": ("a", "b")})
NEEDED = (
    "annotation butler.butlerlabs.dev/release-anyway of TenantCluster team/a needs the verb"
    " release on tenantclusters.butler.butlerlabs.dev in namespace team"
)


class Reviewing:
    """An API server that answers SubjectAccessReviews, and remembers them."""

    def __init__(self, status: Json | ServerFailure) -> None:
        self.status = status
        self.asked: list[tuple[str, str, Json]] = []

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        body = msgspec.json.decode(rest["body"])
        self.asked.append((method, path, body))
        if isinstance(self.status, ServerFailure):
            raise self.status
        return msgspec.json.encode({**body, "metadata": {}, "status": self.status})


class Content:
    """Allows every spec."""

    async def review_creation(self, new: Any) -> Verdict:
        return NOTHING

    async def review_update(self, new: Any, old: Any) -> Verdict:
        return NOTHING

    async def review_deletion(self, old: Any) -> Verdict:
        return NOTHING


def cluster(annotations: Json | None, **spec: Any) -> bytes:
    meta: Json = {"name": "a", "namespace": "team"}
    if annotations is not None:
        meta["annotations"] = annotations
    spec = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}} | spec
    return msgspec.json.encode({"metadata": meta, "spec": spec})


async def ask(
    server: Reviewing, new: bytes, old: bytes = b"", operation: Any = "UPDATE", sub: str = ""
) -> Answer:
    client = Client(server)  # type: ignore[arg-type]
    request: AdmissionRequest[bytes] = AdmissionRequest(
        uid="1",
        kind=GroupVersionKind(names.GROUP, names.VERSION, "TenantCluster"),
        resource=GroupVersionResource(names.GROUP, names.VERSION, "tenantclusters"),
        operation=operation,
        subResource=sub,
        name="a",
        namespace="team",
        userInfo=JANE,
        objectBytes=new,
        oldObjectBytes=old,
    )

    async def guard(asked: AdmissionRequest[bytes]) -> Verdict | None:
        return await releasing.review_release(client, asked)

    return await admission.make_handler(TENANT_CLUSTER, Content(), guard)(request)


@pytest.mark.parametrize(
    ("operation", "old"),
    [("UPDATE", cluster(None)), ("UPDATE", cluster({"other": "x"})), ("CREATE", b"")],
    ids=["first annotation", "further annotation", "created with it"],
)
async def test_a_user_without_the_verb_is_refused_with_what_is_missing(
    operation: Any, old: bytes
) -> None:
    server = Reviewing({"allowed": False})
    answer = await ask(server, cluster(MARK), old=old, operation=operation)
    assert answer == Denied(
        f"{NEEDED}, which user jane lacks: let an administrator bind ClusterRole"
        " butler-ipam-release there"
    )


async def test_the_server_is_asked_about_this_user_and_this_cluster() -> None:
    server = Reviewing({"allowed": True})
    assert isinstance(await ask(server, cluster(MARK), cluster(None)), Allowed)
    [(method, path, body)] = server.asked
    assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    assert body["spec"] == {
        "user": "jane",
        "uid": "7",
        "groups": ["team", "system:authenticated"],
        "extra": {"scopes": ["a", "b"]},
        "resourceAttributes": {
            "group": "butler.butlerlabs.dev",
            "version": "v1alpha1",
            "resource": "tenantclusters",
            "verb": "release",
            "namespace": "team",
            "name": "a",
        },
    }


async def test_a_denial_counts_more_than_an_allowance() -> None:
    server = Reviewing({"allowed": True, "denied": True})
    assert isinstance(await ask(server, cluster(MARK), cluster(None)), Denied)


async def test_a_right_that_cannot_be_checked_is_a_refusal_that_says_so() -> None:
    server = Reviewing(ServerFailure(500, "InternalError", "etcd is away"))
    answer = await ask(server, cluster(MARK), cluster(None))
    assert isinstance(answer, Denied)
    assert answer.message.startswith(f"{NEEDED}; whether user jane has it cannot be checked: ")
    assert "etcd is away" in answer.message


@pytest.mark.parametrize(
    ("new", "old", "operation", "sub"),
    [
        (cluster(MARK, workers={"replicas": 2}), cluster(MARK), "UPDATE", ""),
        (cluster({names.ANNOTATION_RELEASE_ANYWAY: "no"}), cluster(MARK), "UPDATE", ""),
        (cluster(None), cluster(MARK), "UPDATE", ""),
        (cluster({"other": "x"}), cluster(None), "UPDATE", ""),
        (cluster(MARK), cluster(None), "UPDATE", "status"),
        (b"", cluster(MARK), "DELETE", ""),
        (cluster(None), b"", "CREATE", ""),
    ],
    ids=["kept", "another value", "removed", "another one", "status", "deleted", "created"],
)
async def test_nothing_else_is_asked_about(
    new: bytes, old: bytes, operation: Any, sub: str
) -> None:
    server = Reviewing({"allowed": False})
    assert isinstance(await ask(server, new, old=old, operation=operation, sub=sub), Allowed)
    assert server.asked == []
