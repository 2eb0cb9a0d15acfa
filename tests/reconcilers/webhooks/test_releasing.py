"""The annotation release-anyway needs the verb `release`, checked by a SubjectAccessReview."""

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
RELEASE_ANYWAY = {names.ANNOTATION_RELEASE_ANYWAY: "true"}
JANE = UserInfo("jane", "7", groups=("team", "system:authenticated"), extra={"scopes": ("a", "b")})
"""The user who sends each request."""
NEEDED = (
    "annotation butler.butlerlabs.dev/release-anyway of TenantCluster team/a needs the verb"
    " release on tenantclusters.butler.butlerlabs.dev in namespace team"
)


class ReviewingServer:
    """An API server that answers each SubjectAccessReview with a status, or fails.

    Attributes:
        asked: method, path and body of each request.
    """

    def __init__(self, status: Json | ServerFailure) -> None:
        self.status = status
        self.asked: list[tuple[str, str, Json]] = []

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        body = msgspec.json.decode(rest["body"])
        self.asked.append((method, path, body))
        if isinstance(self.status, ServerFailure):
            raise self.status
        return msgspec.json.encode({**body, "metadata": {}, "status": self.status})


class AllowingRules:
    """Rules that allow each request."""

    async def review_creation(self, new: Any) -> Verdict:
        return NOTHING

    async def review_update(self, new: Any, old: Any) -> Verdict:
        return NOTHING

    async def review_deletion(self, old: Any) -> Verdict:
        return NOTHING


def make_cluster(annotations: Json | None, **spec: Any) -> bytes:
    """Return the JSON document of TenantCluster team/a; annotations None for none."""
    meta: Json = {"name": "a", "namespace": "team"}
    if annotations is not None:
        meta["annotations"] = annotations
    spec = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}} | spec
    return msgspec.json.encode({"metadata": meta, "spec": spec})


async def send_request(
    server: ReviewingServer,
    new: bytes,
    old: bytes = b"",
    operation: Any = "UPDATE",
    subresource: str = "",
) -> Answer:
    """Return the answer of the webhook to a write of JANE."""
    client = Client(server)  # type: ignore[arg-type]
    request: AdmissionRequest[bytes] = AdmissionRequest(
        uid="1",
        kind=GroupVersionKind(names.GROUP, names.VERSION, "TenantCluster"),
        resource=GroupVersionResource(names.GROUP, names.VERSION, "tenantclusters"),
        operation=operation,
        subResource=subresource,
        name="a",
        namespace="team",
        userInfo=JANE,
        objectBytes=new,
        oldObjectBytes=old,
    )

    async def guard(asked: AdmissionRequest[bytes]) -> Verdict | None:
        return await releasing.review_release(client, asked)

    return await admission.make_handler(TENANT_CLUSTER, AllowingRules(), guard)(request)


@pytest.mark.parametrize(
    ("operation", "old"),
    [("UPDATE", make_cluster(None)), ("UPDATE", make_cluster({"other": "x"})), ("CREATE", b"")],
    ids=["first annotation", "further annotation", "created with it"],
)
async def test_a_user_without_the_verb_is_denied_with_the_missing_right(
    operation: Any, old: bytes
) -> None:
    server = ReviewingServer({"allowed": False})
    answer = await send_request(server, make_cluster(RELEASE_ANYWAY), old=old, operation=operation)
    assert answer == Denied(
        f"{NEEDED}, which user jane lacks: let an administrator bind ClusterRole"
        " butler-ipam-release there"
    )


async def test_the_access_review_names_the_user_and_the_cluster() -> None:
    server = ReviewingServer({"allowed": True})
    assert isinstance(
        await send_request(server, make_cluster(RELEASE_ANYWAY), make_cluster(None)), Allowed
    )
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


async def test_a_review_that_allows_and_denies_counts_as_a_denial() -> None:
    server = ReviewingServer({"allowed": True, "denied": True})
    assert isinstance(
        await send_request(server, make_cluster(RELEASE_ANYWAY), make_cluster(None)), Denied
    )


async def test_a_write_is_denied_if_the_right_cannot_be_checked() -> None:
    server = ReviewingServer(ServerFailure(500, "InternalError", "etcd is away"))
    answer = await send_request(server, make_cluster(RELEASE_ANYWAY), make_cluster(None))
    assert isinstance(answer, Denied)
    assert answer.message.startswith(f"{NEEDED}; whether user jane has it cannot be checked: ")
    assert "etcd is away" in answer.message


@pytest.mark.parametrize(
    ("new", "old", "operation", "subresource"),
    [
        (
            make_cluster(RELEASE_ANYWAY, workers={"replicas": 2}),
            make_cluster(RELEASE_ANYWAY),
            "UPDATE",
            "",
        ),
        (
            make_cluster({names.ANNOTATION_RELEASE_ANYWAY: "no"}),
            make_cluster(RELEASE_ANYWAY),
            "UPDATE",
            "",
        ),
        (make_cluster(None), make_cluster(RELEASE_ANYWAY), "UPDATE", ""),
        (make_cluster({"other": "x"}), make_cluster(None), "UPDATE", ""),
        (make_cluster(RELEASE_ANYWAY), make_cluster(None), "UPDATE", "status"),
        (b"", make_cluster(RELEASE_ANYWAY), "DELETE", ""),
        (make_cluster(None), b"", "CREATE", ""),
    ],
    ids=["kept", "another value", "removed", "another one", "status", "deleted", "created"],
)
async def test_no_access_review_is_created_for_other_writes(
    new: bytes, old: bytes, operation: Any, subresource: str
) -> None:
    server = ReviewingServer({"allowed": False})
    assert isinstance(
        await send_request(server, new, old=old, operation=operation, subresource=subresource),
        Allowed,
    )
    assert server.asked == []
