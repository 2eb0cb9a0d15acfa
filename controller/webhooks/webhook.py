"""One webhook: its path, its handler, and what the API server gets when something fails.

    bytes → review → request → handler → answer → bytes

| what happens                                  | what the API server gets                       |
|-----------------------------------------------|------------------------------------------------|
| the handler answers                           | its answer                                     |
| the new object cannot be decoded              | a refusal, 400                                 |
| the handler raises                            | a refusal, 500; the reason is only in our log  |
| a validating webhook answers with a patch     | a refusal, 500: that is a bug                  |
| the handler takes too long                    | HTTP 504, no review: the failurePolicy decides |

The first four are controller-runtime's rules. In the last case controller-runtime lets the API
server run into its timeout; an answer just before that frees both sides and says what was slow. It
is no refusal, because a webhook with failurePolicy Ignore must not stop writes by being slow.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, Literal, TypeVar, get_args

from controller.callbacks import check_callable, discard_result, name_function, safe_repr
from controller.clock import Clock
from controller.loggers import bind_fields, get_logger
from controller.supervisor import call_guarded, is_bug
from controller.webhooks.answers import Answer, Denied, Patched
from controller.webhooks.envelope import BadReview
from controller.webhooks.review import (
    V1,
    AdmissionRequest,
    Review,
    decode_review,
    encode_review,
)

T = TypeVar("T")

Handler = Callable[[AdmissionRequest[T]], Awaitable[Answer]]
"""Answers one request."""

WriteOperation = Literal["CREATE", "UPDATE", "DELETE"]
"""The writes that a webhook can be called for.

CONNECT is left out: it is for subresources, and the printed configuration has no rule for these.
"""
OPERATIONS: tuple[str, ...] = get_args(WriteOperation)
LONGEST_SECONDS = 30.0
"""The longest timeout that a webhook configuration may have."""

log = get_logger(__name__)


class DeadlineExceeded(Exception):
    """The request was not answered in time."""


class Webhook(Generic[T]):
    """A path and its handler.

    Args:
        path: as in the configuration's clientConfig.service.path, for example
            `/validate-example-com-v1-widget`.
        handler: answers requests; may be called concurrently, and twice for the same write.
        type: what objects are decoded to: any type that msgspec decodes, a pydantic model, `dict`
            for plain JSON, `bytes` for the JSON itself.
        mutating: whether it may answer with a patch.
        operations: the writes that the API server calls it for, as in the printed configuration.
            The request of a deletion has no `object`, only `oldObject`.

    Raises:
        ValueError: the path does not begin with a slash, or there is no such operation.
        TypeError: the handler cannot be called.
    """

    def __init__(
        self,
        path: str,
        handler: Handler[T],
        type: type[T],  # noqa: A002 - as in Resource
        *,
        mutating: bool = False,
        operations: Sequence[WriteOperation] = ("CREATE", "UPDATE"),
    ) -> None:
        if not path.startswith("/") or path == "/":
            raise ValueError(
                f"webhook path {path!r} must begin with a slash, and have a name after it"
            )
        check_callable(handler, f"the handler of webhook {path}", "request")
        unknown = [name for name in operations if name not in OPERATIONS]
        # A text is a sequence, too: of characters.
        if isinstance(operations, str) or unknown or not operations:
            raise ValueError(
                f"webhook {path}: operations must be a list of {', '.join(OPERATIONS)}, not"
                f" {safe_repr(operations)}"
            )
        self.path = path
        self.mutating = mutating
        self.operations = tuple(dict.fromkeys(operations))
        self.type = type
        self._handler = handler

    async def answer(self, body: bytes, clock: Clock, seconds: float) -> tuple[bytes, bool]:
        """Return the body of the response to a request, and whether the handler has a bug.

        A review that cannot be decoded and an error of the handler are answered with a refusal.

        Args:
            body: an AdmissionReview.
            clock: measures the time.
            seconds: how long the handler may take.

        Raises:
            DeadlineExceeded: the handler took longer.
        """
        try:
            review = decode_review(body)
            request = review.create_request(self.type)
        except BadReview as error:
            log.warning("Bad admission request", webhook=self.path, error=str(error))
            message = str(error)
            refusal = encode_refusal(message, 400, uid=error.uid, api_version=error.api_version)
            return refusal, False
        with bind_fields(**self._create_log_context(review)):
            with clock.move_on_after(seconds) as scope:
                answer, failed = await self._call_handler(request, review)
            if scope.cancelled_caught:
                log.error("Admission request not answered in time", seconds=seconds)
                raise DeadlineExceeded(f"webhook {self.path} did not answer within {seconds:g} s")
            log.debug("Admission request answered", webhook=self.path, failed=failed)
        return answer, failed

    def refuse(self, message: str, code: int) -> tuple[bytes, int]:
        """Return the response to a request whose body cannot be read, and its HTTP status code.

        The status code is 200, because the refusal is in the review.

        Args:
            message: what is wrong with the body.
            code: the code in the refusal.
        """
        return encode_refusal(message, code), 200

    async def _call_handler(
        self, request: AdmissionRequest[T], review: Review
    ) -> tuple[bytes, bool]:
        """Return the encoded answer of the handler, and whether the handler has a bug.

        If the handler raises, the answer is a refusal with code 500.
        """
        encode_answer = partial(encode_review, uid=review.uid, review=review)
        try:
            answer = self._check_answer(await call_guarded(partial(self._handler, request)))
            return encode_answer(answer, api_version=review.api_version), False
        except Exception as error:
            bug = is_bug(error)
            log.exception("Webhook panic" if bug else "Webhook error")
            # The reason is only in the log: it may quote what the writer must not read.
            message = (
                f"webhook {self.path} failed on request {request.uid}; the reason is in its log"
            )
            denied = Denied(message, "InternalError", 500)
            return encode_answer(denied, api_version=review.api_version), bug

    def _check_answer(self, answer: Answer) -> Answer:
        """Return an answer of the handler if this webhook may give it.

        Raises:
            TypeError: it is no answer, or a patch of a validating webhook.
        """
        if not isinstance(answer, Answer):  # a forgotten return, for example
            raise TypeError(
                f"webhook {self.path}: {name_function(self._handler)} returned"
                f" {discard_result(answer)}, which is not an Answer: return Allowed,"
                " Denied or Patched"
            )
        if isinstance(answer, Patched) and not self.mutating:
            raise TypeError(f"webhook {self.path} is validating: it must not return a patch")
        return answer

    def _create_log_context(self, review: Review) -> dict[str, str]:
        """Return the fields of all log lines about a request."""
        resource = review.fields["resource"]
        return {
            "webhook": self.path,
            "requestID": review.uid,
            "operation": review.fields["operation"],
            # The core group is empty, and has no dot before it.
            "resource": f"{resource.resource}.{resource.group}".rstrip("."),
            "namespace": review.fields["namespace"],
            "name": review.fields["name"],
            "user": review.fields["userInfo"].username,
        }


def encode_refusal(message: str, code: int, *, uid: str = "", api_version: str = V1) -> bytes:
    """Return a review that refuses a request which could not be decoded.

    Args:
        message: what is wrong with the request.
        code: 400 or 413.
        uid: the request's uid; empty if unknown.
        api_version: the version of the review.
    """
    reason = "BadRequest" if code == 400 else "RequestEntityTooLarge"
    return encode_review(Denied(message, reason, code), uid, review=None, api_version=api_version)


def compute_handler_seconds(value: str, default: float) -> float:
    """Return how many seconds a handler may take: nine tenths of the API server's timeout.

    The rest is for the way of the answer to the API server. Timeouts in configurations are from 1
    to 30 seconds; another value counts as the nearer of the two.

    Args:
        value: the `timeout` of the request's query, whole seconds in Go's format: `10s`.
        default: the API server's timeout in seconds, used if `value` is no such duration.
    """
    number = value.removesuffix("s")
    is_duration = value.endswith("s") and number.isdecimal()
    seconds = float(number) if is_duration else default
    return 0.9 * min(max(seconds, 1.0), LONGEST_SECONDS)
