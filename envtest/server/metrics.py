"""Metrics in Prometheus' text format: what can be told of a server that counts nothing.

The names are those under which kube-apiserver tells the same.
"""

import time
from collections.abc import Iterator, Mapping

from envtest.server.api import Api

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_STARTED = time.time()


def metrics(api: Api) -> bytes:
    """Return the metrics of a server.

    Args:
        api: its state.
    """
    lines = [
        *_told(
            "apiserver_resource_objects",
            "[BETA] Number of stored objects at the time of last check split by kind.",
            [
                ({"group": resource.group, "resource": resource.plural}, len(api.table(resource)))
                for resource in {one.place: one for one in api.registry}.values()
            ],
        ),
        *_told(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            [({}, time.process_time())],
            kind="counter",
        ),
        *_told(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            [({}, _STARTED)],
        ),
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _told(
    name: str, meaning: str, values: list[tuple[Mapping[str, str], float]], *, kind: str = "gauge"
) -> Iterator[str]:
    """Yield the lines of one metric, its values in the order of their labels."""
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for labels, value in sorted(values, key=lambda one: sorted(one[0].items())):
        named = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
        yield f"{name}{{{named}}} {value:g}" if named else f"{name} {value!r}"
