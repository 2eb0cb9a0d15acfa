"""What the work queue costs per key: adding, handing out, finishing, with and without metrics.

Sixteen workers take 100,000 keys of 20,000 objects, so four of five additions meet a key that is
queued already; then every key is put off once, and comes back by its delay. The time is CPU time
of this process, so that others on the machine count only by the caches they take.
"""

from collections.abc import Callable
from time import process_time

import anyio
import click

from controller.clock import SystemClock
from controller.meta import Key
from controller.metrics import Metrics
from controller.workqueue import QueueShutDown, WorkQueue

KEYS = [Key("tenants", f"cluster-{number}") for number in range(20_000)]
WORKERS = 16


async def work(queue: WorkQueue[Key], then: Callable[[Key], None]) -> None:
    """Take keys until the queue is drained."""
    while True:
        try:
            key = await queue.get()
        except QueueShutDown:
            return
        then(key)
        queue.done(key)


async def measure(queue: WorkQueue[Key], fill: Callable[[], None]) -> float:
    """Return the seconds of CPU time that filling and draining the queue took."""
    begun = process_time()
    fill()
    queue.shut_down()
    async with anyio.create_task_group() as group:
        for _ in range(WORKERS):
            group.start_soon(work, queue, queue.forget)
    return process_time() - begun


async def measure_added_once(queue: WorkQueue[Key]) -> float:
    """Return microseconds per key that is added, handed out and finished once."""

    def fill() -> None:
        for key in KEYS:
            queue.add(key)

    return await measure(queue, fill) / len(KEYS) * 1e6


async def measure_added_again(queue: WorkQueue[Key]) -> float:
    """Return microseconds per addition of a key that is queued already."""
    for key in KEYS:
        queue.add(key)
    begun = process_time()
    for _ in range(4):
        for key in KEYS:
            queue.add(key)
    return (process_time() - begun) / (4 * len(KEYS)) * 1e6


async def measure_delayed(queue: WorkQueue[Key]) -> float:
    """Return microseconds per key that comes back by its delay and is handed out."""
    begun = process_time()
    for key in KEYS:
        queue.add_after(key, 0.001)
    for _ in KEYS:
        queue.done(await queue.get())
    return (process_time() - begun) / len(KEYS) * 1e6


async def main() -> None:
    """Print one line per way of using the queue."""
    click.echo(f"{'':44}{'plain':>10}{'metrics':>10}   µs per key")
    ways = {
        "added, handed out, done": measure_added_once,
        "added while queued": measure_added_again,
        "put off, handed out, done": measure_delayed,
    }
    for name, way in ways.items():
        plain = await way(WorkQueue[Key](SystemClock()))
        observer = Metrics().create_queue_metrics("bench")
        metered = await way(WorkQueue[Key](SystemClock(), observer=observer))
        click.echo(f"{name:44}{plain:10.2f}{metered:10.2f}")


def run() -> None:
    """Print what the queue costs."""
    anyio.run(main)
