"""Free ports: taken neither by another process nor by another control plane of ours.

A free port stays free only until a process listens on it. Two control planes that start at once
could choose the same one, and one might find the other's etcd at its address, ready to serve. So
each port that is given out is noted in a file, as in Go's envtest, and not given out again.
"""

import os
import socket
import tempfile
import time
from pathlib import Path

# By then the process that got the port listens on it, or never will.
_NOTED_SECONDS = 120.0


def free_port(host: str, notes: Path | None = None) -> int:
    """Return a port that no process listens on, and that was not given out lately.

    Args:
        host: the address to listen on; IPv6 ones may have brackets.
        notes: the folder that all planes of a user share; the usual one if not given.
    """
    folder = notes or Path(tempfile.gettempdir()) / f"envtest-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    _forget_old(folder)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        with socket.socket(family) as probe:
            probe.bind((host.strip("[]"), 0))
            port: int = probe.getsockname()[1]
            if _note_port(folder / str(port)):
                return port


def _note_port(note: Path) -> bool:
    """Note a port as given out; return whether it was not noted before."""
    try:
        note.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _forget_old(folder: Path) -> None:
    """Remove the notes of ports given out long ago."""
    oldest = time.time() - _NOTED_SECONDS
    for note in folder.iterdir():
        try:
            if note.stat().st_mtime < oldest:
                note.unlink()
        except FileNotFoundError:
            # Another plane was quicker.
            continue
