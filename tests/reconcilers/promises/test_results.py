"""The result of a failed write: settled, refused until a person allows it, or unknown."""

import pytest

from controller.errors import (
    ApiError,
    BadRequest,
    Conflict,
    ControllerError,
    Expired,
    Forbidden,
    Invalid,
    NoAnswer,
    NotFound,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
)
from reconcilers.promises.passes import PoolWriteRefused, raise_if_pool_write_refused
from reconcilers.promises.results import WriteResult

RESULTS: list[tuple[ApiError, WriteResult]] = [
    (Conflict(409), WriteResult.SETTLED),
    (NotFound(404), WriteResult.SETTLED),
    (BadRequest(400), WriteResult.REFUSED),
    (Forbidden(403), WriteResult.REFUSED),
    (Invalid(422), WriteResult.REFUSED),
    (ServerFailure(500, "InternalError", 'failed calling webhook "x"'), WriteResult.REFUSED),
    (ServerFailure(500, "InternalError", "etcd is full"), WriteResult.UNKNOWN),
    (ServerFailure(504, "Timeout", "the request did not complete"), WriteResult.UNKNOWN),
    (
        Conflict(409, "Conflict", 'admission webhook "x" denied the request: no'),
        WriteResult.REFUSED,
    ),
    (
        NotFound(404, "NotFound", 'admission webhook "x" denied the request: no'),
        WriteResult.REFUSED,
    ),
    (
        Unauthorized(
            401,
            "Unauthorized",
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
        ),
        WriteResult.REFUSED,
    ),
    (TooManyRequests(429), WriteResult.UNKNOWN),
    (Unauthorized(401), WriteResult.UNKNOWN),
    (Expired(410), WriteResult.UNKNOWN),
]


@pytest.mark.parametrize(("error", "result"), RESULTS, ids=str)
def test_each_error_of_a_write_has_its_result(error: ApiError, result: WriteResult) -> None:
    assert WriteResult.from_error(error) is result


@pytest.mark.parametrize(("error", "result"), RESULTS, ids=str)
def test_an_error_that_refuses_a_write_to_a_request_refuses_one_to_a_pool_too(
    error: ApiError, result: WriteResult
) -> None:
    with pytest.raises(ControllerError) as raised, raise_if_pool_write_refused():
        raise error
    assert isinstance(raised.value, PoolWriteRefused) is (result is WriteResult.REFUSED)


def test_a_write_without_an_answer_may_have_taken_effect() -> None:
    assert WriteResult.from_error(NoAnswer("silence")) is WriteResult.UNKNOWN
