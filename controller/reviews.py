"""Reviews: objects by which a client asks the API server a question, and which it never stores.

TokenReview, SubjectAccessReview and others are created with a spec, the question. Their status in
the response is the answer.
"""

from collections.abc import Mapping
from typing import Any

from controller.codec import decode_json, encode
from controller.transport import Transport


async def ask_review(
    transport: Transport, api_version: str, kind: str, spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Create a review and return its status; empty if the answer has none.

    Args:
        transport: the API server.
        api_version: for example `authorization.k8s.io/v1`.
        kind: for example `SubjectAccessReview`.
        spec: the question.

    Raises:
        ControllerError: the server rejected the request, or did not answer.
    """
    body = {"apiVersion": api_version, "kind": kind, "spec": spec}
    path = f"/apis/{api_version}/{kind.lower()}s"
    answer = decode_json(await transport.request("POST", path, body=encode(body)))
    status = answer.get("status") if isinstance(answer, dict) else None
    return status if isinstance(status, dict) else {}


def is_access_allowed(status: Mapping[str, Any]) -> bool:
    """Return whether the status of a SubjectAccessReview allows the request; a denial wins."""
    return status.get("allowed") is True and status.get("denied") is not True
