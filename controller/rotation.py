"""Noticing that files were replaced, also by the swap of a symlink as kubelet does it."""

from collections.abc import Iterable
from pathlib import Path

State = tuple[tuple[str, int, int, int] | None, ...]


def state(files: Iterable[Path]) -> State:
    """Return what changes when any of the files does; missing ones are a state, too.

    The resolved path is part of it: a Secret's volume is replaced by pointing one symlink to
    another folder, and the new file may have the age and the size of the old one.
    """
    return tuple(_state(file) for file in files)


def _state(file: Path) -> tuple[str, int, int, int] | None:
    try:
        real = file.resolve()
        found = real.stat()
    except OSError:
        return None
    return str(real), found.st_ino, found.st_mtime_ns, found.st_size
