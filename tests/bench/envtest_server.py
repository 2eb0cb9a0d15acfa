"""The embedded API server in a process of its own, for benchmarks: `python -m … [DATA]`.

It is started as `butler-ipam apiserver` starts it.

It prints where it is and what to say to it, as one line of JSON. After that it answers each line
on its standard input with a line of JSON: `cost` tells what it has used, `fill N` puts objects
straight into the store (to list many without waiting for many requests), `serve N` such as
hold addresses. The end of the input is
the end of the server, so it never outlives the benchmark.
"""

import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio import to_thread

from reconcilers.cli.local.servers import collect_garbage_less_often
from tests.bench.envtest_objects import PLACE, allocation, make_served_allocation

if TYPE_CHECKING:
    from envtest import EmbeddedServer

_PAGE = os.sysconf("SC_PAGE_SIZE")


def cost() -> dict[str, float]:
    """Return the CPU seconds that this process has used, and the MiB that it holds."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        resident_memory = int(statm.read_text().split()[1]) * _PAGE
    else:
        # The most it ever held: all that other systems tell.
        resident_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"cpu": time.process_time(), "memory": resident_memory / 2**20}


def fill(server: "EmbeddedServer", count: int, *, allocated: bool = False) -> None:
    """Store objects without any request: new ones, or such as hold addresses."""
    for number in range(count):
        new = allocation(f"filled-{number:06}")
        body: dict[str, Any] = make_served_allocation(number) if allocated else new
        body["metadata"] |= {
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
        }
        del body["apiVersion"], body["kind"]
        server.api.store.write(PLACE, f"default/{body['metadata']['name']}", body)


def say(value: object) -> None:
    """Print a line of JSON."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


async def main(data: Path | None) -> None:
    """Serve until the input ends."""
    from envtest import serve

    async with serve(data=data) as server:
        authority = server.authority.pair.certificate.decode()
        token = server.get_or_create_token("admin")
        say({"url": server.url, "authority": authority, "token": token, **cost()})
        while line := await to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            command, _, argument = line.strip().partition(" ")
            if command == "fill":
                fill(server, int(argument))
            if command == "serve":
                fill(server, int(argument), allocated=True)
            say(cost())


if __name__ == "__main__":
    collect_garbage_less_often()
    anyio.run(main, Path(sys.argv[1]) if len(sys.argv) > 1 else None)
