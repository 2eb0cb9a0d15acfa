"""Who may read a page: TokenReview says who asks, SubjectAccessReview whether they may.

The rules are those of controller-runtime's metrics filter (pkg/metrics/filters): a bearer token or
401, the verb and the path that RBAC's nonResourceURLs name or 403. Answers are remembered for a
short time, so that a scrape every few seconds does not become two requests each; tokens are
remembered by their hash alone.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from controller.clock import Clock
from controller.codec import decode_json, encode
from controller.errors import ControllerError
from controller.transport import Transport

K = TypeVar("K")
V = TypeVar("V")

TOKEN_SECONDS = 60.0
ALLOWED_SECONDS = 300.0
DENIED_SECONDS = 30.0
REMEMBERED = 1024
"""Answers of either kind that are kept at most."""

_AUTHENTICATION = "authentication.k8s.io/v1"
_AUTHORIZATION = "authorization.k8s.io/v1"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a page is not shown: an HTTP status and a sentence."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class _User:
    name: str
    uid: str
    groups: tuple[str, ...]
    extra: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "_User":
        extra = {
            str(name): tuple(map(str, values or ()))
            for name, values in (told.get("extra") or {}).items()
        }
        return cls(
            str(told.get("username") or ""),
            str(told.get("uid") or ""),
            tuple(map(str, told.get("groups") or ())),
            tuple(sorted(extra.items())),
        )


class AccessReviewer:
    """Asks the API server who somebody is and what they may see.

    Args:
        transport: the API server; our account there may create both reviews.
        clock: for how long answers are remembered.
    """

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._users: _Remembered[bytes, _User | None] = _Remembered(clock)
        self._rights: _Remembered[tuple[_User, str, str], bool] = _Remembered(clock)

    async def refusal(self, method: str, path: str, authorization: str) -> Refusal | None:
        """Return why a request is refused; None if it may be answered.

        Args:
            method: of HTTP; in lower case it is the verb.
            path: of the page.
            authorization: the header; empty if there was none.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return Refusal(401, "Unauthorized")
        try:
            user = await self._user(token)
            if user is None:
                return Refusal(401, "Unauthorized")
            allowed = await self._may(user, method.lower(), path)
        except ControllerError as error:
            log.error("Cannot review access", path=path, error=str(error))  # noqa: TRY400 - said
            return Refusal(500, "Authentication failed")
        return None if allowed else Refusal(403, f"Authorization denied for user {user.name}")

    async def _user(self, token: str) -> _User | None:
        digest = hashlib.sha256(token.encode()).digest()
        known = self._users.get(digest)
        if known is not None:
            return known[0]
        status = await self._review("TokenReview", _AUTHENTICATION, {"token": token})
        genuine = status.get("authenticated") is True
        user = _User.of(status.get("user") or {}) if genuine else None
        # One that is not genuine is not remembered: it may become so (clocks, new keys).
        if user is not None:
            self._users.put(digest, user, TOKEN_SECONDS)
        return user

    async def _may(self, user: _User, verb: str, path: str) -> bool:
        known = self._rights.get((user, verb, path))
        if known is not None:
            return known[0]
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {name: list(values) for name, values in user.extra},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        status = await self._review("SubjectAccessReview", _AUTHORIZATION, spec)
        allowed = status.get("allowed") is True and status.get("denied") is not True
        seconds = ALLOWED_SECONDS if allowed else DENIED_SECONDS
        self._rights.put((user, verb, path), allowed, seconds)
        return allowed

    async def _review(self, kind: str, version: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Create a review and return its status."""
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        path = f"/apis/{version}/{kind.lower()}s"
        answer = decode_json(await self._transport.request("POST", path, body=encode(body)))
        status = answer.get("status") if isinstance(answer, dict) else None
        return status if isinstance(status, dict) else {}


class _Remembered(Generic[K, V]):
    """Answers by question, each for its time, the oldest forgotten beyond a number."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, question: K) -> Sequence[V] | None:
        """Return the answer in a sequence of one, None if there is none: it may be None itself."""
        found = self._answers.get(question)
        if found is None or found[1] <= self._clock.monotonic():
            return None
        return (found[0],)

    def put(self, question: K, answer: V, seconds: float) -> None:
        """Remember an answer for `seconds`."""
        self._answers.pop(question, None)
        self._answers[question] = (answer, self._clock.monotonic() + seconds)
        if len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)
