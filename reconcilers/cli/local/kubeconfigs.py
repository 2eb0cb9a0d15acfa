"""Kubeconfigs that we write for people: private, and never over a file that is somebody else's."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from reconcilers.cli.problems import Problem

MARK = "# Written by butler-ipam; it is replaced at the next start.\n"


def place(wanted: Path | None, data: Path | None, name: str) -> Path:
    """Return where a kubeconfig goes: where it is wanted, beside the data, or somewhere private.

    Args:
        wanted: what the user said, if anything.
        data: the folder that keeps the objects, if there is one.
        name: of the file, where the user did not say.
    """
    if wanted is not None:
        return wanted.expanduser().absolute()
    if data is not None:
        return data.absolute() / name
    folder = tempfile.mkdtemp(prefix="butler-ipam-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / name


def check(path: Path) -> None:
    """Make sure that `path` may be written.

    Raises:
        Problem: something is there that we did not write.
    """
    try:
        if path.exists() and not path.read_text(encoding="utf-8").startswith(MARK):
            raise Problem(
                f"{path} exists and was not written by butler-ipam: name another --kubeconfig,"
                " or remove it"
            )
    except (OSError, UnicodeDecodeError) as wrong:
        raise Problem(f"{path} cannot be used for a kubeconfig: {wrong}") from wrong


def write(path: Path, kubeconfig: str) -> None:
    """Write a kubeconfig that only its owner can read, in one step.

    Raises:
        Problem: something else is there, or it cannot be written.
    """
    check(path)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        part.write_text(MARK + kubeconfig, encoding="utf-8")
        part.replace(path)
    except OSError as wrong:
        raise Problem(f"{path} cannot be written: {wrong.strerror}") from wrong
