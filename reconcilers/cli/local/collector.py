"""The garbage collector of a process that is an API server and nothing else.

Not the library's business: whoever starts a server inside a program of their own keeps the
collector as they set it.
"""

import gc

# Python looks for cycles after 700 new containers. A server makes hundreds for every answer, all
# of which go by themselves; `python -m tests.bench envtest` shows what looking at them costs.
_THRESHOLDS = (10_000, 20, 20)


def relax() -> None:
    """Look for cycles less often."""
    gc.set_threshold(*_THRESHOLDS)
