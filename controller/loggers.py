"""Loggers that import structlog when they write their first line, and fields for all lines.

    log = get_logger(__name__)
    log.info("Scaled", replicas=3)

To import structlog takes a tenth of a second of CPU: it imports asyncio, its traceback formatters
and, where it is installed, rich. A command that logs nothing does not spend that. No other module
imports structlog late. `controller.logs` says where lines go, and in which form.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_fields: ContextVar[Mapping[str, Any]] = ContextVar("fields of log lines")
_is_muted: ContextVar[bool] = ContextVar("lines are dropped", default=False)


class Logger:
    """A logger of structlog, which is imported with its first line.

    Args:
        name: of the logger, as lines show it.
    """

    __slots__ = ("_logger", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._logger: FilteringBoundLogger | None = None

    def debug(self, event: str, *values: Any, **fields: Any) -> None:
        """Log a line of the level debug; `values` replace the %-signs in `event`."""
        if not _is_muted.get():
            self._load().debug(event, *values, **fields)

    def info(self, event: str, *values: Any, **fields: Any) -> None:
        """Log a line of the level info, as `debug` does."""
        if not _is_muted.get():
            self._load().info(event, *values, **fields)

    def warning(self, event: str, *values: Any, **fields: Any) -> None:
        """Log a line of the level warning, as `debug` does."""
        if not _is_muted.get():
            self._load().warning(event, *values, **fields)

    def error(self, event: str, *values: Any, **fields: Any) -> None:
        """Log a line of the level error, as `debug` does."""
        if not _is_muted.get():
            self._load().error(event, *values, **fields)

    def exception(self, event: str, *values: Any, **fields: Any) -> None:
        """Log a line of the level error, with the exception that is being handled."""
        if not _is_muted.get():
            self._load().exception(event, *values, **fields)

    def _load(self) -> "FilteringBoundLogger":
        """Return structlog's logger; import structlog at the first call."""
        if self._logger is None:
            import structlog  # noqa: PLC0415 - a command that logs nothing need not load it

            self._logger = structlog.get_logger(self._name)  # noqa: TID251 - the one place
        return self._logger


def get_logger(name: str) -> Logger:
    """Return a logger; `name` is usually `__name__`."""
    return Logger(name)


@contextmanager
def bind_fields(**fields: Any) -> Iterator[None]:
    """Add these fields to all lines that are logged inside, and in tasks started there."""
    token = _fields.set({**_fields.get({}), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


def add_fields(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Add the fields of `bind_fields` to a line; fields of the line itself stay.

    This is a processor of structlog, which calls it with three arguments.
    """
    for name, value in _fields.get({}).items():
        line.setdefault(name, value)
    return line


@contextmanager
def mute_lines() -> Iterator[None]:
    """Drop all lines that are logged inside, and in tasks started there."""
    token = _is_muted.set(True)
    try:
        yield
    finally:
        _is_muted.reset(token)
