"""Reviews of requests for /metrics: which reviews are sent, how often, and the HTTP status."""

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest
from typing_extensions import override

from controller.accessreviews import (
    ALLOWED_SECONDS,
    DENIED_SECONDS,
    MAX_CACHED,
    TOKEN_SECONDS,
    AccessReviewer,
)
from controller.errors import NoAnswer
from controller.pages import PageResponse
from controller.transport import NO_QUERY
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport

SCRAPER_USER = {
    "username": "scraper",
    "uid": "1",
    "groups": ["g"],
    "extra": {"scopes": ["a", "b"]},
}


class ReviewingCluster(StoreTransport):
    """Answers TokenReviews and SubjectAccessReviews.

    Attributes:
        tokens: the user of each valid token.
        allowed: the user, verb and path of each allowed request.
        review_kinds: the kind of each review so far.
        last_spec: the spec of the last review.
        is_down: reviews get no answer.
    """

    def __init__(self) -> None:
        super().__init__(Store())
        self.tokens: dict[str, Any] = {"good": SCRAPER_USER}
        self.allowed = {("scraper", "get", "/metrics")}
        self.review_kinds: list[str] = []
        self.last_spec: dict[str, Any] = {}
        self.is_down = False

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
        if self.is_down:
            raise NoAnswer("POST: connection refused")
        review = msgspec.json.decode(body or b"{}")
        assert path.endswith(review["kind"].lower() + "s")
        self.review_kinds.append(review["kind"])
        spec = self.last_spec = review["spec"]
        if review["kind"] == "TokenReview":
            user = self.tokens.get(spec["token"])
            return msgspec.json.encode(
                {"status": {"authenticated": user is not None, "user": user or {}}}
            )
        attributes = spec["nonResourceAttributes"]
        attributes_of_user = (spec["user"], attributes["verb"], attributes["path"])
        return msgspec.json.encode({"status": {"allowed": attributes_of_user in self.allowed}})


class ReviewHarness:
    """A reviewer over a cluster in which only the user `scraper` may read /metrics."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cluster = ReviewingCluster()
        self.reviewer = AccessReviewer(self.cluster, self.clock)

    async def request_refusal(self, authorization: str = "Bearer good") -> PageResponse | None:
        """Ask for /metrics; return the response of a refusal, None if the request is allowed."""
        return await self.reviewer.guard("GET", "/metrics", authorization)

    async def request_status(self, authorization: str = "Bearer good") -> int:
        """Ask for /metrics; return the HTTP status."""
        refusal = await self.request_refusal(authorization)
        return 200 if refusal is None else refusal.status


async def test_an_authorised_user_is_let_in_and_the_review_has_all_fields_of_the_user() -> None:
    harness = ReviewHarness()
    assert await harness.request_status() == 200
    assert harness.cluster.last_spec == {
        "user": "scraper",
        "uid": "1",
        "groups": ["g"],
        "extra": {"scopes": ["a", "b"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize("header", ["", "Basic Z29vZA==", "Bearer", "Bearer ", "good"])
async def test_without_a_bearer_token_no_review_is_sent(header: str) -> None:
    harness = ReviewHarness()
    assert await harness.request_status(header) == 401
    assert harness.cluster.review_kinds == []


async def test_an_invalid_token_is_answered_with_401_and_not_cached() -> None:
    harness = ReviewHarness()
    assert await harness.request_status("Bearer new") == 401
    harness.cluster.tokens["new"] = SCRAPER_USER
    assert await harness.request_status("Bearer new") == 200


async def test_an_unauthorised_user_is_answered_with_403_and_named() -> None:
    harness = ReviewHarness()
    harness.cluster.tokens["bob"] = {"username": "bob"}
    refusal = await harness.request_refusal("bearer bob")
    assert refusal == PageResponse(b"Authorization denied for user bob", 403)


async def test_review_results_are_cached_for_a_short_time() -> None:
    harness = ReviewHarness()
    for _ in range(10):
        assert await harness.request_status() == 200
    assert harness.cluster.review_kinds == ["TokenReview", "SubjectAccessReview"]
    await harness.clock.advance(TOKEN_SECONDS)
    await harness.request_status()
    assert harness.cluster.review_kinds[2:] == ["TokenReview"]
    harness.cluster.allowed.clear()
    await harness.clock.advance(ALLOWED_SECONDS - TOKEN_SECONDS - 1)
    assert await harness.request_status() == 200
    await harness.clock.advance(1)
    assert await harness.request_status() == 403


async def test_a_denial_is_cached_for_a_shorter_time() -> None:
    harness = ReviewHarness()
    allowed, harness.cluster.allowed = harness.cluster.allowed, set()
    assert await harness.request_status() == 403
    harness.cluster.allowed = allowed
    await harness.clock.advance(DENIED_SECONDS - 1)
    assert await harness.request_status() == 403
    await harness.clock.advance(1)
    assert await harness.request_status() == 200


async def test_requests_fail_with_500_while_the_api_server_does_not_answer() -> None:
    harness = ReviewHarness()
    harness.cluster.is_down = True
    assert await harness.request_status() == 500
    harness.cluster.is_down = False
    assert await harness.request_status() == 200


async def test_the_number_of_cached_results_is_limited() -> None:
    harness = ReviewHarness()
    for number in range(MAX_CACHED + 10):
        harness.cluster.tokens[f"t{number}"] = SCRAPER_USER
        await harness.request_status(f"Bearer t{number}")
    sent_count = len(harness.cluster.review_kinds)
    await harness.request_status("Bearer t0")
    await harness.request_status(f"Bearer t{MAX_CACHED + 9}")
    assert len(harness.cluster.review_kinds) == sent_count + 1


async def test_concurrent_requests_are_all_answered() -> None:
    harness = ReviewHarness()
    codes: list[int] = []

    async def scrape() -> None:
        codes.append(await harness.request_status())

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(scrape)
    assert codes == [200] * 5
