"""What networks and overloaded servers do to clients, done on purpose by a proxy."""

from envtest.faults.calls import Call, Match
from envtest.faults.exchanges import (
    CutAnswer,
    GatewayPage,
    LateAnswer,
    LateRequest,
    LostAnswer,
    Refusal,
    RefusedConnection,
    SlowAnswer,
    expired,
    forbidden,
    internal_error,
    too_many_requests,
    unavailable,
)
from envtest.faults.fault import End, Fault, Pause
from envtest.faults.proxy import Injection, Proxy
from envtest.faults.records import Record
from envtest.faults.streams import (
    ClosedAtOnce,
    DroppedEvents,
    InsertedEvent,
    LargeEvents,
    StopAfter,
    SwallowedBookmarks,
    TruncatedEvent,
    error_without_reason,
    expired_event,
    half_open,
    unknown_event,
)

__all__ = [
    "Call",
    "ClosedAtOnce",
    "CutAnswer",
    "DroppedEvents",
    "End",
    "Fault",
    "GatewayPage",
    "Injection",
    "InsertedEvent",
    "LargeEvents",
    "LateAnswer",
    "LateRequest",
    "LostAnswer",
    "Match",
    "Pause",
    "Proxy",
    "Record",
    "Refusal",
    "RefusedConnection",
    "SlowAnswer",
    "StopAfter",
    "SwallowedBookmarks",
    "TruncatedEvent",
    "error_without_reason",
    "expired",
    "expired_event",
    "forbidden",
    "half_open",
    "internal_error",
    "too_many_requests",
    "unavailable",
    "unknown_event",
]
