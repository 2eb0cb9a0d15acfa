"""What vitistack's kinds are told by the integration with it: reasons, and what each says."""

from collections.abc import Mapping

from reconcilers.api.words import Condition, Event, Words

VITISTACK: Mapping[str, Words] = {
    "NetworkNamespace": Words(
        conditions=(),
        events=(
            Event("Warning", "PoolExhausted", "an IPAllocation waits for a free address"),
            Event(
                "Warning", "InvalidRange", "its settings contradict each other; the note says how"
            ),
        ),
    ),
    "NetworkConfiguration": Words(
        conditions=(
            Condition(
                "Ready",
                "every interface has its address",
                {
                    "Configured": "True",
                    "Reconciling": "False: addresses are waited for",
                    "Error": "False: the message says which interface lacks what",
                },
            ),
        ),
        events=(),
    ),
    "IPAllocation of vitistack": Words(
        conditions=(),
        events=(
            Event("Warning", "NetworkNotFound", "its NetworkNamespace does not exist"),
            Event("Warning", "NoStaticConfiguration", "its network hands out no static addresses"),
            Event("Warning", "InvalidRange", "the settings of its network contradict each other"),
            Event("Warning", "PoolExhausted", "its network has no free address"),
            Event(
                "Warning",
                "AddressUnavailable",
                "the address that it requests is taken, or not handed out by its network",
            ),
            Event("Normal", "Expired", "its address was released: nobody used it any more"),
        ),
    ),
}
"""The kinds of vitistack that something is said of."""
