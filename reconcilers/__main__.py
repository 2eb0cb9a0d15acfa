"""The first module that `butler-ipam` loads, also as `python -m reconcilers`.

Loading the command line takes some tenths of a second. Ctrl-C in that time ends the process as it
ends any program, by the signal; Python's own way would show a traceback of whatever module was
being loaded. So nothing is imported here that takes time.
"""

import signal


def main() -> None:
    """Load the command line and run it; Ctrl-C is the command line's own affair from then on."""
    ours = signal.getsignal(signal.SIGINT)
    if ours is signal.default_int_handler:  # not where a shell has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from reconcilers.cli import main as command_line  # noqa: PLC0415  # see above

    signal.signal(signal.SIGINT, ours)
    command_line.main()


if __name__ == "__main__":
    main()
