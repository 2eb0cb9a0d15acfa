"""Records the demo anew: docs/demo.cast, what a real run of it writes on a terminal.

asciinema records `butler-ipam demo` on the embedded API servers, in a terminal of a fixed size.
Its text is kept to the letter. The demo plays faster than people can read, so each line then gets
the time that reading it takes; with that, nothing depends on how fast the machine was, and two
recordings differ in the ports of the servers and in the seconds that are told.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parent.parent
CAST = ROOT / "docs" / "demo.cast"
COLUMNS, ROWS = 100, 32
READ_PER_SECOND = 45.0
"""Characters."""
LEAST_SECONDS = 0.15
"""For a line; an empty one has a step's end before it, and is waited at."""
STEP_SECONDS = 1.5
NOT_SEEN = re.compile(r"\x1b\[[0-9;]*m")
LATEST = 2
"""The version of asciinema's format."""


def record(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the recording's head, and all that was written.

    Raises:
        RuntimeError: the demo failed; its last words are in the message.
    """
    raw, complained = folder / "raw.cast", folder / "stderr"
    demo = f"exec {sys.executable} -m reconcilers demo --step-timeout=60s 2>{complained}"
    command = [
        *("asciinema", "rec", "--quiet", "--overwrite", f"--cols={COLUMNS}", f"--rows={ROWS}"),
        *("--env=", f"--command=sh -c '{demo}'", str(raw)),
    ]
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    variables = {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", "SHELL": "/bin/sh"}
    subprocess.run(command, check=True, cwd=ROOT, env=variables, timeout=600)
    head, *events = (json.loads(line) for line in raw.read_text(encoding="utf-8").splitlines())
    output = "".join(data for _, kind, data in events if kind == "o")
    if "steps happened, in" not in output:
        raise RuntimeError(f"the demo failed: {complained.read_text(encoding='utf-8')[-2000:]}")
    return head, output


def time_lines(lines: Iterable[str]) -> Iterator[tuple[float, str, str]]:
    """Yield each line as an event, at the second when a reader has read the line before."""
    at = 1.0
    for line in lines:
        yield round(at, 2), "o", line
        seen = NOT_SEEN.sub("", line).strip()
        at += max(LEAST_SECONDS, len(seen) / READ_PER_SECOND) if seen else STEP_SECONDS
    yield round(at + STEP_SECONDS, 2), "o", ""


def main() -> None:
    """Write docs/demo.cast."""
    with TemporaryDirectory() as name:
        head, output = record(Path(name))
    assert head["version"] == LATEST, "asciinema 2 is needed"
    kept = {
        "version": LATEST,
        "width": COLUMNS,
        "height": ROWS,
        "title": "butler-ipam demo",
    }
    first = f"$ {'butler-ipam demo'}\r\n"
    events = time_lines([first, *output.splitlines(keepends=True)])
    written = [kept, *events]
    CAST.write_text(
        "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in written),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
