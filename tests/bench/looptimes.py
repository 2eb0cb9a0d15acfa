"""Runs `butler-ipam`, and measures its event loop and its LISTs in the same process.

A step is what the event loop runs before it looks at any other task. The file that the first
argument names is written when the process ends on SIGTERM.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller import config, httptransport
from reconcilers.cli import main as cli

STACKS = "BUTLER_BENCH_STACKS"
"""The environment variable with the seconds after which a step's stack is printed; for people."""


class LoopMeasurements:
    """The measurements of this process.

    Args:
        file: the file to which `write` writes them.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.longest = 0.0
        self.longest_cpu = 0.0
        self.long_steps = 0
        self.pages: dict[str, int] = {}
        self.lists: dict[str, int] = {}
        self.writes: dict[str, int] = {}
        self.step_begun: float | None = None

    def record_step(self, seconds: float, cpu: float) -> None:
        """Record a step of the event loop: its seconds by the clock, and of CPU time."""
        self.longest = max(self.longest, seconds)
        self.longest_cpu = max(self.longest_cpu, cpu)
        self.long_steps += seconds > 0.1

    def record_request(self, path: str, query: Mapping[str, str]) -> None:
        """Record a read if it reads a page of a list: only then it has a limit or a token."""
        if "limit" in query or "continue" in query or query.get("resourceVersion") == "0":
            plural = path.rsplit("/", 1)[-1]
            self.pages[plural] = self.pages.get(plural, 0) + 1
            self.lists[plural] = self.lists.get(plural, 0) + ("continue" not in query)

    def record_write(self, method: str, path: str) -> None:
        """Record a request that writes, by method, plural and subresource."""
        parts = path.strip("/").split("/")
        plural_at = parts.index("namespaces") + 2 if "namespaces" in parts[:-2] else 3
        wire_path = "/".join([*parts[plural_at : plural_at + 1], *parts[plural_at + 2 :]])
        self.writes[f"{method} {wire_path}"] = self.writes.get(f"{method} {wire_path}", 0) + 1

    def write(self) -> None:
        """Write what was measured into the file."""
        result = {
            "longest": self.longest,
            "longest_cpu": self.longest_cpu,
            "long_steps": self.long_steps,
            "lists": self.lists,
            "pages": self.pages,
            "writes": self.writes,
        }
        self._file.write_text(json.dumps(result))


def start_measuring(measured: LoopMeasurements) -> None:
    """Measure each step and each list of this process from now on."""
    run, request = asyncio.Handle._run, httptransport.HttpTransport.request

    def run_step(self: asyncio.Handle) -> None:
        begun, cpu = time.perf_counter(), time.thread_time()
        measured.step_begun = begun
        try:
            run(self)
        finally:
            measured.step_begun = None
            measured.record_step(time.perf_counter() - begun, time.thread_time() - cpu)

    async def send(
        self: httptransport.HttpTransport, method: str, path: str, **rest: Any
    ) -> bytes:
        if method == "GET":
            measured.record_request(path, rest.get("query") or {})
        else:
            measured.record_write(method, path)
        return await request(self, method, path, **rest)

    asyncio.Handle._run = run_step  # type: ignore[method-assign]
    httptransport.HttpTransport.request = send  # type: ignore[method-assign]


def print_stacks(measured: LoopMeasurements, after: float) -> None:
    """Print the stack of each step that takes longer than `after` seconds, forever."""
    main = threading.main_thread().ident
    printed: float | None = None
    pause = threading.Event()
    while True:
        pause.wait(after / 4)
        begun = measured.step_begun
        if begun is None or begun == printed or time.perf_counter() - begun < after:
            continue
        printed = begun
        frame = sys._current_frames().get(main or 0)
        lines: list[str] = []
        while frame is not None and len(lines) < 14:
            lines.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
            frame = frame.f_back
        sys.stderr.write("STEP " + " < ".join(lines) + "\n")


def main() -> None:
    """Run `butler-ipam` with the arguments after the file and the token's path."""
    measured = LoopMeasurements(Path(sys.argv.pop(1)))
    config.TOKEN_FILE = Path(sys.argv.pop(1))
    start_measuring(measured)
    if after := os.environ.get(STACKS):
        stacks = threading.Thread(target=print_stacks, args=(measured, float(after)), daemon=True)
        stacks.start()
    try:
        cli.main()
    finally:
        measured.write()


if __name__ == "__main__":
    main()
