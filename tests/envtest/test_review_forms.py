"""The form of reviews: what their metadata may be, and who owns what they ask."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.envtest.servers import started

RIGHTS = "/apis/authorization.k8s.io/v1"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The administrator."""
    async with started() as client:
        yield client


@pytest.mark.parametrize(
    ("plural", "text"),
    [
        ("subjectaccessreviews", "must be empty"),
        ("selfsubjectaccessreviews", "must be empty"),
        ("namespaces/default/localsubjectaccessreviews", "must be empty except for namespace"),
    ],
)
async def test_a_review_about_somebody_has_no_name(
    http: httpx.AsyncClient, plural: str, text: str
) -> None:
    asked = {"verb": "get", "resource": "pods", "namespace": "default"}
    spec: dict[str, Any] = {"resourceAttributes": asked}
    if not plural.startswith("self"):
        spec["user"] = "joe"
    answer = await http.post(f"{RIGHTS}/{plural}", json={"metadata": {"name": "x"}, "spec": spec})

    assert answer.status_code == 422
    assert 'metadata: Invalid value: {"name":"x",' in answer.json()["message"]
    assert answer.json()["message"].endswith(f": {text}")


async def test_a_review_tells_who_asked_what(http: httpx.AsyncClient) -> None:
    spec = {"user": "joe", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    answer = await http.post(f"{RIGHTS}/subjectaccessreviews", json={"spec": spec})

    (entry,) = answer.json()["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("python-httpx", "Update")
    nothing: dict[str, Any] = {}
    paths = {".": nothing, "f:path": nothing, "f:verb": nothing}
    owned = {"f:spec": {"f:nonResourceAttributes": paths, "f:user": nothing}}
    assert entry["fieldsV1"] == owned


async def test_a_review_of_oneself_asks_nothing(http: httpx.AsyncClient) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = (await http.post(path, json={"status": {"userInfo": {"username": "x"}}})).json()

    assert list(answer) == ["kind", "apiVersion", "metadata", "status"]
    assert answer["status"]["userInfo"]["username"] == "admin"
