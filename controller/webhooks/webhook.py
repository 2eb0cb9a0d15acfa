"""One webhook: where it is, what judges, and what becomes of everything that can go wrong.

    bytes → review → request → handler → answer → bytes

| what happens                                  | what the API server is told                    |
|-----------------------------------------------|------------------------------------------------|
| the handler answers                           | its answer                                     |
| the new object is none of the webhook's type  | refused, 400                                   |
| the handler raises                            | refused, 500; the reason is in our log only    |
| a validating webhook answers with a patch     | refused, 500: that is a bug                    |
| the time is up                                | HTTP 504, no review: the failurePolicy decides |

The first four are controller-runtime's rules. It lets the API server run into its own time limit;
answering just before that frees both sides and says who was slow. It is no refusal, because a
webhook with failurePolicy Ignore is one that must not stop writes by being slow.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog
from structlog.contextvars import bound_contextvars

from controller.clock import Clock
from controller.webhooks.answers import Answer, Denied, Patched
from controller.webhooks.request import AdmissionRequest
from controller.webhooks.review import BadReview, Review, read_review, write_review

T = TypeVar("T")

Handler = Callable[[AdmissionRequest[T]], Awaitable[Answer]]
"""Judges one request."""

LONGEST_SECONDS = 30.0
"""The longest timeout that a webhook configuration may ask for."""

log = structlog.get_logger(__name__)


class OutOfTime(Exception):
    """The handler did not answer in time."""


class Webhook(Generic[T]):
    """A path at which writes are judged.

    Args:
        path: as in the configuration's clientConfig.service.path, for example
            `/validate-example-com-v1-widget`.
        handler: judges; it may be called many times at once, and a second time about one write.
        type: what objects are decoded to: any type that msgspec decodes, `dict` for plain JSON,
            `bytes` for the JSON itself.
        mutating: whether it may answer with a patch.

    Raises:
        ValueError: the path does not begin with a slash.
    """

    def __init__(
        self,
        path: str,
        handler: Handler[T],
        type: type[T],  # noqa: A002 - as in Resource
        *,
        mutating: bool = False,
    ) -> None:
        if not path.startswith("/") or len(path) < 2:
            raise ValueError(f"webhook path {path!r} must begin with a slash and name something")
        self.path = path
        self.mutating = mutating
        self._handler = handler
        self._type = type

    async def answer(self, body: bytes, clock: Clock, seconds: float) -> tuple[bytes, bool]:
        """Return the body of the answer to a body, and whether the handler failed.

        Args:
            body: an AdmissionReview.
            clock: measures the time.
            seconds: that the handler may take.

        Raises:
            OutOfTime: it took longer.
        """
        try:
            review = read_review(body)
            request = review.request(self._type)
        except BadReview as error:
            log.warning("Bad admission request", webhook=self.path, error=str(error))
            return refused(str(error), 400, uid=error.uid, api_version=error.api_version), False
        with bound_contextvars(**self._about(review)):
            with clock.move_on_after(seconds) as scope:
                answer, failed = await self._judged(request)
            if scope.cancelled_caught:
                log.error("Admission request not answered in time", seconds=seconds)
                raise OutOfTime(f"webhook {self.path} did not answer within {seconds:g} s")
            log.debug("Admission request answered", answer=type(answer).__name__)
        return write_review(answer, review.uid, review, review.api_version), failed

    async def _judged(self, request: AdmissionRequest[T]) -> tuple[Answer, bool]:
        try:
            return self._checked(await self._handler(request)), False
        except Exception:
            log.exception("Webhook panic")
            # Why is for those who read our log: errors may quote what others must not see.
            message = (
                f"webhook {self.path} failed on request {request.uid}; the reason is in its log"
            )
            return Denied(message, "InternalError", 500), True

    def _checked(self, answer: Answer) -> Answer:
        """Refuse what the type checker would have refused, a forgotten return above all."""
        if not isinstance(answer, Answer):
            raise TypeError(f"webhook {self.path} returned {answer!r}, which is no Answer")
        if isinstance(answer, Patched) and not self.mutating:
            raise TypeError(f"webhook {self.path} is validating and must not answer with a patch")
        return answer

    def _about(self, review: Review) -> dict[str, str]:
        resource = review.fields["resource"]
        return {
            "webhook": self.path,
            "requestID": review.uid,
            "operation": review.fields["operation"],
            "resource": f"{resource.resource}.{resource.group}".rstrip("."),
            "namespace": review.fields["namespace"],
            "name": review.fields["name"],
            "user": review.fields["userInfo"].username,
        }


def refused(message: str, code: int, *, uid: str = "", api_version: str = "") -> bytes:
    """Return the body that refuses what could not be read; `uid` is empty where it is unknown."""
    answer = Denied(message, "BadRequest" if code == 400 else "RequestEntityTooLarge", code)
    return write_review(answer, uid, None, **({"api_version": api_version} if api_version else {}))


def seconds_allowed(text: str, default: float) -> float:
    """Return how long a handler may take, by the `timeout` of the API server's query.

    A tenth of it is left for the way back.

    Args:
        text: a Go duration as the API server writes it, whole seconds: `10s`; anything else
            gives the default.
        default: seconds.
    """
    number = text.removesuffix("s")
    asked = float(number) if number.isdecimal() and text != number else default
    return 0.9 * min(max(asked, 1.0), LONGEST_SECONDS)
