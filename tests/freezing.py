"""Freezes processes as an overloaded node or a debugger does."""

import os
import signal


def freeze(pid: int) -> None:
    """Stop a child process, and return once all of its threads stand still.

    SIGSTOP takes effect when one thread of the process gets a CPU. On a busy machine the others
    go on for up to a tenth of a second, and what a test does next still reaches the process.

    Args:
        pid: of a process that this one has started.
    """
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def thaw(pid: int) -> None:
    """Let a frozen process go on."""
    os.kill(pid, signal.SIGCONT)
