"""Who may read /metrics: what is asked of the API server, how often, and what follows."""

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest
from typing_extensions import override

from controller.accessreviews import MAX_CACHED, AccessReviewer
from controller.errors import NoAnswer
from controller.pages import PageResponse
from controller.transport import NO_QUERY
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport

SCRAPER = {"username": "scraper", "uid": "1", "groups": ["g"], "extra": {"scopes": ["a", "b"]}}


class Cluster(StoreTransport):
    """Knows tokens and their users, and which users may get which paths."""

    def __init__(self) -> None:
        super().__init__(Store())
        self.tokens: dict[str, Any] = {"good": SCRAPER}
        self.rights = {("scraper", "get", "/metrics")}
        self.asked: list[str] = []
        self.spec: dict[str, Any] = {}
        self.down = False

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = 30.0,
    ) -> bytes:
        if self.down:
            raise NoAnswer("POST: connection refused")
        review = msgspec.json.decode(body or b"{}")
        assert path.endswith(review["kind"].lower() + "s")
        self.asked.append(review["kind"])
        spec = self.spec = review["spec"]
        if review["kind"] == "TokenReview":
            user = self.tokens.get(spec["token"])
            return msgspec.json.encode(
                {"status": {"authenticated": user is not None, "user": user or {}}}
            )
        attributes = spec["nonResourceAttributes"]
        right = (spec["user"], attributes["verb"], attributes["path"])
        return msgspec.json.encode({"status": {"allowed": right in self.rights}})


class Harness:
    """A reviewer over a cluster in which only the user `scraper` may read /metrics."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cluster = Cluster()
        self.reviewer = AccessReviewer(self.cluster, self.clock)

    async def request_refusal(self, authorization: str = "Bearer good") -> PageResponse | None:
        return await self.reviewer.guard("GET", "/metrics", authorization)

    async def request_status(self, authorization: str = "Bearer good") -> int:
        refusal = await self.request_refusal(authorization)
        return 200 if refusal is None else refusal.status


async def test_an_authorised_user_is_let_in_and_the_review_has_all_fields_of_the_user() -> None:
    harness = Harness()
    assert await harness.request_status() == 200
    assert harness.cluster.spec == {
        "user": "scraper",
        "uid": "1",
        "groups": ["g"],
        "extra": {"scopes": ["a", "b"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize("header", ["", "Basic Z29vZA==", "Bearer", "Bearer ", "good"])
async def test_without_a_bearer_token_no_review_is_sent(header: str) -> None:
    harness = Harness()
    assert await harness.request_status(header) == 401
    assert harness.cluster.asked == []


async def test_an_invalid_token_is_401_and_not_cached() -> None:
    harness = Harness()
    assert await harness.request_status("Bearer new") == 401
    harness.cluster.tokens["new"] = SCRAPER
    assert await harness.request_status("Bearer new") == 200


async def test_an_unauthorised_user_is_403_by_name() -> None:
    harness = Harness()
    harness.cluster.tokens["bob"] = {"username": "bob"}
    refusal = await harness.request_refusal("bearer bob")
    assert refusal == PageResponse(b"Authorization denied for user bob", 403)


async def test_review_results_are_cached_for_a_short_time() -> None:
    harness = Harness()
    for _ in range(10):
        assert await harness.request_status() == 200
    assert harness.cluster.asked == ["TokenReview", "SubjectAccessReview"]
    await harness.clock.advance(60)
    await harness.request_status()
    assert harness.cluster.asked[2:] == ["TokenReview"]
    harness.cluster.rights.clear()
    await harness.clock.advance(239)
    assert await harness.request_status() == 200
    await harness.clock.advance(1)
    assert await harness.request_status() == 403


async def test_a_denial_is_cached_for_a_shorter_time() -> None:
    harness = Harness()
    rights, harness.cluster.rights = harness.cluster.rights, set()
    assert await harness.request_status() == 403
    harness.cluster.rights = rights
    await harness.clock.advance(29)
    assert await harness.request_status() == 403
    await harness.clock.advance(1)
    assert await harness.request_status() == 200


async def test_requests_fail_with_500_while_the_api_server_does_not_answer() -> None:
    harness = Harness()
    harness.cluster.down = True
    assert await harness.request_status() == 500
    harness.cluster.down = False
    assert await harness.request_status() == 200


async def test_the_number_of_cached_results_is_limited() -> None:
    harness = Harness()
    for number in range(MAX_CACHED + 10):
        harness.cluster.tokens[f"t{number}"] = SCRAPER
        await harness.request_status(f"Bearer t{number}")
    asked = len(harness.cluster.asked)
    await harness.request_status("Bearer t0")
    await harness.request_status(f"Bearer t{MAX_CACHED + 9}")
    assert len(harness.cluster.asked) == asked + 1


async def test_concurrent_requests_are_all_answered() -> None:
    harness = Harness()
    codes: list[int] = []

    async def scrape() -> None:
        codes.append(await harness.request_status())

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(scrape)
    assert codes == [200] * 5
