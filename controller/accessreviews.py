"""Access control for /metrics with TokenReviews and SubjectAccessReviews.

The rules are those of controller-runtime's metrics filter (pkg/metrics/filters): 401 without a
valid bearer token, 403 unless RBAC's nonResourceURLs allow the verb and path. Results are cached,
so that scraping every few seconds does not send two requests each time. Tokens are kept only as
hashes.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from controller.clock import Clock
from controller.errors import ControllerError
from controller.loggers import get_logger
from controller.pages import PageResponse
from controller.reviews import ask_review, is_access_allowed
from controller.transport import Transport

K = TypeVar("K")
V = TypeVar("V")

TOKEN_SECONDS = 60.0
"""How long the user of a token is cached; the three durations are those of controller-runtime."""
ALLOWED_SECONDS = 300.0
"""How long a permission is cached."""
DENIED_SECONDS = 30.0
"""How long a denial is cached; shorter, so that a new role takes effect soon."""
MAX_CACHED = 1024
"""Maximum number of cached results of each review."""

_AUTHENTICATION = "authentication.k8s.io/v1"
_AUTHORIZATION = "authorization.k8s.io/v1"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _User:
    """The user of a token, as a TokenReview names it; hashable, as keys are."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: tuple[tuple[str, tuple[str, ...]], ...]


class AccessReviewer:
    """Asks the API server who sends a request and whether they may read the page.

    Args:
        transport: the API server; our account there must be allowed to create both reviews.
        clock: measures the age of cached results.
    """

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._users: _ExpiringCache[bytes, _User] = _ExpiringCache(clock)
        self._allowed: _ExpiringCache[tuple[_User, str, str], bool] = _ExpiringCache(clock)

    async def guard(self, method: str, path: str, authorization: str) -> PageResponse | None:
        """Return the response that refuses a request; None if it is allowed.

        Its status is 401 without a valid bearer token, 403 if the user may not read the page, and
        500 if the API server did not answer a review.

        Args:
            method: the HTTP method; in lower case it is the verb.
            path: the page's path.
            authorization: the Authorization header; empty if there is none.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return PageResponse(b"Unauthorized", status=401)
        try:
            user = await self._authenticate(token)
            if user is None:
                return PageResponse(b"Unauthorized", status=401)
            allowed = await self._authorize(user, method.lower(), path)
        except ControllerError as error:
            # The API server did not answer, so whether the request is allowed is not known.
            log.error("Cannot review access", path=path, error=str(error))  # noqa: TRY400 - expected
            return PageResponse(b"Authentication failed", status=500)
        if allowed:
            return None
        body = f"Authorization denied for user {user.name}".encode()
        return PageResponse(body, status=403)

    async def _authenticate(self, token: str) -> _User | None:
        """Return the user of a token, cached or by a TokenReview; None if the token is invalid."""
        digest = hashlib.sha256(token.encode()).digest()
        cached_user = self._users.get(digest)
        if cached_user is not None:
            return cached_user
        status = await ask_review(
            self._transport, _AUTHENTICATION, kind="TokenReview", spec={"token": token}
        )
        if status.get("authenticated") is not True:
            # Not cached: the token may become valid, as clocks or the server's keys change.
            return None
        user = _parse_user(status.get("user") or {})
        self._users.put(digest, user, TOKEN_SECONDS)
        return user

    async def _authorize(self, user: _User, verb: str, path: str) -> bool:
        """Return whether a user may make a request, cached or by a SubjectAccessReview."""
        cached_result = self._allowed.get((user, verb, path))
        if cached_result is not None:
            return cached_result
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {name: list(values) for name, values in user.extra},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        status = await ask_review(
            self._transport, _AUTHORIZATION, kind="SubjectAccessReview", spec=spec
        )
        allowed = is_access_allowed(status)
        seconds = ALLOWED_SECONDS if allowed else DENIED_SECONDS
        self._allowed.put((user, verb, path), allowed, seconds)
        return allowed


def _parse_user(user: Mapping[str, Any]) -> _User:
    """Return the user in the status of a TokenReview; fields that it lacks are empty."""
    extra = {
        str(name): tuple(map(str, values or ()))
        for name, values in (user.get("extra") or {}).items()
    }
    return _User(
        str(user.get("username") or ""),
        str(user.get("uid") or ""),
        groups=tuple(map(str, user.get("groups") or ())),
        # Sorted, so that the same user gives the same key of cached results in any order.
        extra=tuple(sorted(extra.items())),
    )


class _ExpiringCache(Generic[K, V]):
    """Values that expire; beyond MAX_CACHED the value that was put first is removed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By key: the value, and when (monotonic seconds) it expires.
        self._values: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if it was never put or has expired."""
        entry = self._values.get(key)
        if entry is None:
            return None
        value, expires_at = entry
        return value if self._clock.monotonic() < expires_at else None

    def put(self, key: K, value: V, seconds: float) -> None:
        """Keep a value for `seconds`."""
        self._values.pop(key, None)  # so that a renewed value is the newest, not at its old place
        self._values[key] = (value, self._clock.monotonic() + seconds)
        if len(self._values) > MAX_CACHED:
            self._values.popitem(last=False)
