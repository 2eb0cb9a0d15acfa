"""Says which version this checkout is; the build asks, and nothing else imports it.

In a checkout the tag says it (v1.2.3); commits after it make a development version of the next
one. Archives have no tags: git writes one's description into ARCHIVED, a source distribution has
PKG-INFO, and BUTLER_IPAM_VERSION says it where there is neither, as in an image's build.
hatch-vcs was rejected: it needs git and four more build tools for what is said here.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ARCHIVED = "$Format:%(describe:tags=true,match=v[0-9]*)$"
FIRST = "0.1.0"
"""The version that the commits before the first tag lead to."""
VARIABLE = "BUTLER_IPAM_VERSION"
_DESCRIBED = re.compile(r"v(\d+)\.(\d+)\.(\d+)(rc\d+)?(?:-(\d+)-g([0-9a-f]+))?")
_VERSION = re.compile(r"\d+\.\d+\.\d+(rc\d+)?(\.dev\d+)?(\+[a-z0-9.]+)?")


def version(folder: Path = HERE, archived: str = ARCHIVED) -> str:
    """Return the version of the checkout or archive in `folder`.

    Raises:
        ValueError: the variable's value is no version.
    """
    if override := os.environ.get(VARIABLE):
        override = override.removeprefix("v")
        if not _VERSION.fullmatch(override):
            raise ValueError(f"{VARIABLE}: {override!r} is no version such as 1.2.3")
        return override
    return next(_said(folder, archived), f"{FIRST}.dev0")


def _said(folder: Path, archived: str) -> Iterator[str]:
    info = folder / "PKG-INFO"
    if info.is_file():
        if match := re.search(r"^Version: (.+)$", info.read_text(encoding="utf-8"), re.MULTILINE):
            yield match[1]
    elif (folder / ".git").exists():
        if output := _git(folder, "describe", "--tags", "--match", "v[0-9]*"):
            yield parse_description(output)
        elif output := _git(folder, "rev-list", "--count", "HEAD"):
            yield f"{FIRST}.dev{output}"
    elif not archived.startswith("$") and archived:
        yield parse_description(archived)


def parse_description(description: str) -> str:
    """Return the version for the output of `git describe`; between tags a development version.

    Raises:
        ValueError: the tag is none of ours.
    """
    match = _DESCRIBED.fullmatch(description)
    if match is None:
        raise ValueError(f"the tag {description!r} is not of the form v1.2.3 or v1.2.3rc1")
    major, minor, patch, candidate, commits, commit = match.groups()
    if commits is None:
        return f"{major}.{minor}.{patch}{candidate or ''}"
    following = int(patch) + (0 if candidate else 1)
    return f"{major}.{minor}.{following}.dev{commits}+g{commit}"


def _git(folder: Path, *arguments: str) -> str:
    """Return git's output; empty if git fails or is not installed."""
    try:
        done = subprocess.run(  # noqa: S603  # fixed words
            ["git", "-C", str(folder), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
