"""What allocations cost on the embedded API server, next to a plain client-go controller.

The same as `python -m tests.bench real`, where the real programs are not at hand. The API server
is one process of Python, which limits both controllers sooner than a real one would.

    python -m tests.bench embedded [--allocations N]... [--only NAME] [--type KIND]
"""

from collections.abc import Sequence

from tests.bench import bench_real


def run(arguments: Sequence[str] = ()) -> None:
    """Print what allocations cost on the embedded API server."""
    bench_real.run(arguments, "embedded")
