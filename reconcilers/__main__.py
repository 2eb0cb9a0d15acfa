"""The first module that `butler-ipam` loads, also as `python -m reconcilers`.

Loading the command line takes some tenths of a second. Ctrl-C in that time ends the process as it
ends any program, by the signal; Python's own way would show a traceback of whatever module was
being loaded. So nothing is imported here that takes time.

The wheel has five packages at the top level, and their names are plain words. Where another
project's package of such a name is found in place of ours, that is said before anything is loaded.
"""

import hashlib
import signal
import sys
from base64 import urlsafe_b64encode
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("allocator", "controller", "envtest", "manifests", "reconcilers")


def main() -> None:
    """Load the command line and run it; Ctrl-C is the command line's own affair from then on."""
    ours = signal.getsignal(signal.SIGINT)
    if ours is signal.default_int_handler:  # not where a shell has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if problem := conflict(Path(__file__).parent.parent):
        sys.exit(f"error: {problem}")
    from reconcilers.cli import main as command_line  # noqa: PLC0415  # see above

    signal.signal(signal.SIGINT, ours)
    command_line.main()


def conflict(home: Path) -> str:
    """Describe the package of ours that another project replaced, and the remedy; empty if none.

    Args:
        home: the folder that ours are in.
    """
    recorded = _read_recorded_digests(home)
    for name in PACKAGES:
        spec = find_spec(name)
        file = Path(spec.origin) if spec is not None and spec.origin else None
        if file is None or file.parent.parent.resolve() != home.resolve():
            where = f"that of {file.parent}" if file else "not there"
            return (
                f"the package `{name}` that Python finds is {where}, not butler-ipam's in {home}:"
                " install butler-ipam into an environment of its own, and see that neither"
                " PYTHONPATH nor the current folder has a package of that name"
            )
        if (known := recorded.get(f"{name}/__init__.py")) and known != _digest(file):
            return (
                f"{file} is not the file that butler-ipam installed: another package has written"
                f" its own `{name}` over it; install butler-ipam again, into an environment of its"
                " own"
            )
    return ""


def _read_recorded_digests(home: Path) -> dict[str, str]:
    """Return the digests of our files by path, as pip recorded them; none of a checkout.

    importlib.metadata would find the same file; importing it takes longer than the whole check.
    """
    lines = (
        line.split(",")
        for record in home.glob("butler_ipam-*.dist-info/RECORD")
        for line in record.read_text(encoding="utf-8").splitlines()
    )
    return {line[0]: line[1] for line in lines if len(line) == 3 and line[1]}


def _digest(file: Path) -> str:
    """Return a file's digest as RECORD has it."""
    digest = urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest())
    return f"sha256={digest.rstrip(b'=').decode()}"


if __name__ == "__main__":
    main()
