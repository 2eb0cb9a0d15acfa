"""Log lines, in JSON or for a console, on standard error, with controller-runtime's keys.

`configure_logs` is called once, before the manager is made. `controller.loggers` has the loggers
of our code. The runner adds controller, controllerKind, namespace, name and reconcileID to the
lines of a reconciliation. Lines of the standard library's loggers (aiohttp, kubernetes_asyncio)
get the same format.
"""

import json
import logging
import sys
from collections.abc import Iterable
from io import StringIO
from typing import IO, Any, Literal, TextIO, get_args

import structlog
from structlog.types import EventDict, ExcInfo, Processor

from controller.loggers import add_fields
from controller.plaintext import escape_json, escape_lines, escape_text

Format = Literal["json", "console"]

KEY_ORDER = (
    *("ts", "level", "logger", "msg"),
    *("controller", "controllerGroup", "controllerKind", "namespace", "name", "reconcileID"),
)
"""Lines begin with these keys, in this order, if they have them."""


def configure_logs(
    output: Format = "json", level: str = "info", *, stream: IO[str] | None = None
) -> None:
    """Send all log lines of this process to one stream in one format.

    Args:
        output: `json` or `console`.
        level: the lowest level that is written: debug, info, warning or error.
        stream: standard error by default.

    Raises:
        ValueError: there is no such format or level.
    """
    if output not in get_args(Format):
        raise ValueError(f"log format {output!r} is unknown: use {' or '.join(get_args(Format))}")
    level_number = logging.getLevelNamesMapping().get(level.upper())
    if level_number is None:
        raise ValueError(f"log level {level!r} is unknown: use debug, info, warning or error")
    shared = tuple(_list_shared_processors())
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level_number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,  # so that all loggers follow a later configuration
    )
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=_list_rendering_processors(output, colors=target.isatty()),
        )
    )
    # `force` removes the handlers that other code has added to the root logger.
    logging.basicConfig(handlers=[handler], level=level_number, force=True)


def _list_shared_processors() -> Iterable[Processor]:
    """Yield the processors for lines of structlog and of the standard library's loggers."""
    yield add_fields
    yield structlog.contextvars.merge_contextvars
    yield structlog.stdlib.add_logger_name
    yield structlog.stdlib.add_log_level
    yield structlog.stdlib.PositionalArgumentsFormatter()
    yield structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts")
    yield structlog.processors.StackInfoRenderer()


def _list_rendering_processors(output: Format, *, colors: bool) -> list[Processor]:
    """Return the processors that turn a log entry into a line of text, for people or as JSON."""
    if output == "console":
        console = structlog.dev.ConsoleRenderer(
            colors=colors,
            timestamp_key="ts",
            sort_keys=False,
            pad_event_to=0,
            # The prettier formatters print local variables, which may hold credentials.
            exception_formatter=_write_traceback,
        )
        return [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _escape_values,
            console,
        ]
    return [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("msg"),
        _order_keys,
        structlog.processors.JSONRenderer(
            _render_json, sort_keys=False, default=str, ensure_ascii=False
        ),
    ]


def _render_json(line: object, **options: Any) -> str:
    """Return a line as JSON without spaces after colons, as runbooks search `"level":"error"`."""
    return escape_json(json.dumps(line, separators=(",", ":"), **options))


def _escape_values(_logger: object, _method: str, line: EventDict) -> EventDict:
    """Return a line with control characters in its texts escaped: they may come from objects.

    Line breaks in a stack or a traceback stay.
    """
    escaped: EventDict = {}
    for key, value in line.items():
        if isinstance(value, str):
            escape = escape_lines if key in {"stack", "exception"} else escape_text
            escaped[key] = escape(value)
        else:
            escaped[key] = value
    return escaped


def _write_traceback(stream: TextIO, exc_info: ExcInfo) -> None:
    """Write a plain traceback, with control characters in its lines escaped."""
    plain = StringIO()
    structlog.dev.plain_traceback(plain, exc_info)
    stream.write(escape_lines(plain.getvalue()))


def _order_keys(_logger: object, _method: str, line: EventDict) -> EventDict:
    """Return a line with the keys of KEY_ORDER first, then all others by name."""
    first = {key: line[key] for key in KEY_ORDER if key in line}
    return {**first, **{key: line[key] for key in sorted(line) if key not in first}}
