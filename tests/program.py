"""Runs Python text in a process of its own: `python -m tests.program TEXT ARGUMENTS`.

As `python -c` does, but started by the fork server (tests/forkserver.py), which has our packages
and what they depend on imported. Tests of what a program imports, and when, use `python -c`.
"""

import sys


def script(content: str, *arguments: str) -> list[str]:
    """Return the command line that runs a text with these arguments."""
    return [sys.executable, "-m", "tests.program", content, *arguments]


if __name__ == "__main__":
    argv = sys.argv.pop(1)
    exec(compile(argv, "<string>", "exec"))
