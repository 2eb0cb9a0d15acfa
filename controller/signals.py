"""SIGTERM and SIGINT: the first ends a manager in good order, the second ends the process.

SIGUSR1 ends nothing: it tells what every task and thread is doing.

A lost lease ends the process, too. Work is cancelled in that moment; what does not end by that
(a shielded task, a thread) ends with the process, before anybody else can lead.
"""

import os
import signal

import anyio
import structlog

from controller.clock import Clock, SystemClock
from controller.diagnostics import dump_on_signal
from controller.manager import Manager

log = structlog.get_logger(__name__)


async def run_until_signal(manager: Manager, clock: Clock | None = None) -> None:
    """Run `manager` until it ends, or until a signal asks it to.

    After the first SIGTERM or SIGINT running work may finish within the manager's grace period.
    A second one exits the process at once, with status 1. SIGUSR1 writes all tasks and threads
    to standard error. When the lease is lost and the work has not ended shortly before somebody
    else can lead, the process exits at once, with status 1.

    Args:
        manager: what is run.
        clock: for that last moment.

    Raises:
        LeaderLost, ConfigurationError: as Manager.run does.
    """
    failures: list[Exception] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_listen, manager)
        group.start_soon(dump_on_signal)
        if manager.options.leader_elect:
            group.start_soon(_end_in_time, manager, clock or SystemClock())
        try:
            await manager.run()
        except Exception as error:  # noqa: BLE001 - raised below, outside of the group's wrapping
            failures.append(error)
        group.cancel_scope.cancel()
    if failures:
        raise failures[0]


async def _end_in_time(manager: Manager, clock: Clock) -> None:
    await manager.lost.wait()
    await clock.sleep(manager.options.lease_settings().ending_seconds)
    log.error("The lease is lost and the work does not end, exiting at once")
    os._exit(1)


async def _listen(manager: Manager) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        asked = False
        async for number in signals:
            if asked:
                log.warning("Second signal, exiting at once", signal=number.name)
                # Not sys.exit: that would wait for the very tasks that do not end.
                os._exit(1)
            log.info("Stopping", signal=number.name)
            asked = True
            manager.stop()
