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
    """Load the command line and run it; Ctrl-C is the command line's own affair from then on.

    The process exits with an error message if another project replaced one of our packages.
    """
    original_handler = signal.getsignal(signal.SIGINT)
    # A shell may have set SIGINT to be ignored, as for a background job. That is kept.
    if original_handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if problem := describe_replaced_package(Path(__file__).parent.parent):
        sys.exit(f"error: {problem}")
    # Imported here, because this import is the slow one.
    from reconcilers.cli import main as command_line  # noqa: PLC0415

    signal.signal(signal.SIGINT, original_handler)
    command_line.main()


def describe_replaced_package(packages_folder: Path) -> str:
    """Describe the first of our packages that another project replaced, and the remedy.

    Empty if none is replaced. A package is replaced if Python finds it in another folder, or if
    its file differs from the installed one.

    Args:
        packages_folder: that of the running program: site-packages, or a Git checkout.
    """
    digests_by_path = _read_recorded_digests(packages_folder)
    for name in PACKAGES:
        spec = find_spec(name)
        file = Path(spec.origin) if spec is not None and spec.origin else None
        if file is None or file.parent.parent.resolve() != packages_folder.resolve():
            where = f"that of {file.parent}" if file else "not there"
            return (
                f"the package `{name}` that Python finds is {where}, not butler-ipam's in"
                f" {packages_folder}: install butler-ipam into an environment of its own, and see"
                " that neither PYTHONPATH nor the current folder has a package of that name"
            )
        installed_digest = digests_by_path.get(f"{name}/__init__.py")
        if installed_digest and installed_digest != _compute_digest(file):
            return (
                f"{file} is not the file that butler-ipam installed: another package has written"
                f" its own `{name}` over it; install butler-ipam again, into an environment of its"
                " own"
            )
    return ""


def _read_recorded_digests(packages_folder: Path) -> dict[str, str]:
    """Return the digests of our files by path, as pip recorded them; empty for a Git checkout.

    importlib.metadata would find the same file; importing it takes longer than the whole check.
    """
    # A line has path, digest and size. RECORD lists itself without a digest.
    lines = (
        line.split(",")
        for record in packages_folder.glob("butler_ipam-*.dist-info/RECORD")
        for line in record.read_text(encoding="utf-8").splitlines()
    )
    return {line[0]: line[1] for line in lines if len(line) == 3 and line[1]}


def _compute_digest(file: Path) -> str:
    """Return a file's digest in the notation of RECORD: `sha256=` and URL-safe base64."""
    digest = urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest())
    return f"sha256={digest.rstrip(b'=').decode()}"


if __name__ == "__main__":
    main()
