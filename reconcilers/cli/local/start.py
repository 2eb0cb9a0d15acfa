"""The way from a command into work that starts servers, and out of it in good order."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from controller.errors import ControllerError
from reconcilers.cli.local.door import told
from reconcilers.cli.local.objects import UnknownKind
from reconcilers.cli.local.signals import interruptible
from reconcilers.cli.problems import Problem


def run_until_interrupted(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` in an event loop of its own, until it ends or Ctrl-C ends it.

    Raises:
        Interrupted: Ctrl-C came first, and everything has ended.
        Problem: a server did not start or did not answer; says which and why.
        Exception: what else `work` raised.
    """
    with told():
        try:
            anyio.run(partial(interruptible, work))
        except (ControllerError, UnknownKind) as failure:
            raise Problem(str(failure)) from failure
        except BrokenPipeError:
            raise  # whoever read what we tell has seen enough
        except OSError as failure:
            what = failure.strerror or str(failure)
            raise Problem(f"{failure.filename}: {what}" if failure.filename else what) from failure
