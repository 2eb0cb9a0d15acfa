"""Free ports, on which no process listens and which no other control plane is about to use.

A port is free until a process listens on it, so two control planes that start at the same time
could choose the same port. One of them might then use the etcd of the other. So each chosen port
is noted in a file, as in Go's envtest, and not chosen again for some time.
"""

import os
import socket
import tempfile
import time
from pathlib import Path

# After this time, a process either listens on its chosen port or never will.
_NOTED_SECONDS = 120.0


def choose_free_port(host: str, notes: Path | None = None) -> int:
    """Return a port on which no process listens, and that was not chosen recently.

    Args:
        host: the address to listen on; an IPv6 address may have brackets.
        notes: the folder of notes; None for the one that all processes of a user share.
    """
    folder = notes or Path(tempfile.gettempdir()) / f"envtest-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    _remove_old_notes(folder)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        with socket.socket(family) as probe:
            probe.bind((host.strip("[]"), 0))
            port: int = probe.getsockname()[1]
            if _reserve_port(folder / str(port)):
                return port


def _reserve_port(note: Path) -> bool:
    """Create the note of a port; return False if another process has already created it."""
    try:
        note.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _remove_old_notes(folder: Path) -> None:
    """Remove the notes of ports that were chosen long ago."""
    oldest = time.time() - _NOTED_SECONDS
    for note in folder.iterdir():
        try:
            if note.stat().st_mtime < oldest:
                note.unlink()
        except FileNotFoundError:
            # Another process has removed it.
            continue
