"""Options of the commands, and their text in --help.

Each flag is an environment variable BUTLER_IPAM_<FLAG>, too; --help names only variables with
another name. Defaults, units and limits are shown in plain words. Durations are written as in Go:
500ms, 10s, 1h30m.
"""

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from click.types import OptionHelpExtra
from typing_extensions import override

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

PREFIX = "BUTLER_IPAM_"


def name_variable(flag: str) -> str:
    """Return the environment variable of a flag: `--webhook-port` is BUTLER_IPAM_WEBHOOK_PORT."""
    return PREFIX + flag.lstrip("-").replace("-", "_").upper()


class Option(click.Option):
    """An option whose default and limits --help shows in words.

    Args:
        group: the heading under which a GroupedCommand lists it; empty for none.
        default_text: the text of the default in --help; None for click's text, empty for no text.
    """

    def __init__(
        self, *arguments: Any, group: str = "", default_text: str | None = None, **attributes: Any
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.group = group
        self.default_text = default_text

    @property
    def long(self) -> str:
        """The first flag with two dashes."""
        return next(flag for flag in self.opts if flag.startswith("--"))

    @override
    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Return the parts in brackets after the help of an option: default, limits, variable.

        The environment variable is left out if its name follows from the flag.
        """
        extra = super().get_help_extra(ctx)
        default = extra.pop("default", "")
        if self.envvar == name_variable(self.long):
            extra.pop("envvars", None)
        shown_default = default if self.default_text is None else self.default_text
        if shown_default and shown_default != '""':  # click's text of an empty default
            extra["default"] = shown_default
        if isinstance(self.type, click.IntRange):
            extra["range"] = _describe_limits(self.type)
        return extra


def _describe_limits(kind: click.IntRange) -> str:
    """Return the limits of a range of integers in words."""
    return f"{kind.min} or more" if kind.max is None else f"{kind.min} to {kind.max}"


class GroupedCommand(click.Command):
    """A command whose --help lists its options under the headings of their groups.

    Args:
        groups: the headings, in the order in which --help shows them.
    """

    def __init__(self, *arguments: Any, groups: Sequence[str], **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.groups = groups

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each group; options without a group come last."""
        sections: dict[str, list[tuple[str, str]]] = {group: [] for group in self.groups}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = parameter.group if isinstance(parameter, Option) else ""
                sections.setdefault(group or "Other options", []).append(record)
        for group, records in sections.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)


def option(*declarations: str, **attributes: Any) -> Callable[[F], F]:
    """Return click's option decorator, with the environment variable of its long flag.

    Args:
        *declarations: the flags; the first long one names the variable.
        **attributes: arguments of `Option`. `envvar` names another environment variable.
    """
    long = next(flag for flag in declarations if flag.startswith("--"))
    # `--on/--off` is one declaration of click's for both flags.
    attributes.setdefault("envvar", name_variable(long.partition("/")[0]))
    attributes.setdefault("show_envvar", True)
    attributes.setdefault("show_default", True)
    return click.option(*declarations, cls=Option, **attributes)


def group_options(group: str, *options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, under a heading of --help.

    Args:
        group: the heading.
        *options: decorators of options.
    """

    def decorate(function: F) -> F:
        """Return the command with the options, each marked with the group."""
        parameters: list[click.Parameter] = getattr(function, "__click_params__", [])
        earlier_count = len(parameters)
        decorated = with_options(function, *options)
        # Only the options that were added now belong to the group.
        for parameter in getattr(decorated, "__click_params__", [])[earlier_count:]:
            if isinstance(parameter, Option):
                parameter.group = group
        return decorated

    return decorate


class NameList(click.ParamType[tuple[str, ...]]):
    """Names separated by commas.

    Args:
        member: the type of a name.
    """

    name = "names"

    def __init__(self, member: click.ParamType[str] = click.STRING) -> None:
        self._member = member

    @override
    def convert(
        self,
        value: str | tuple[str, ...],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, ...]:
        """Return each name once, in the order given; an empty text has no names.

        Commas alone are refused. They come from a template whose values are missing, and an empty
        list can mean all names.
        """
        if isinstance(value, tuple):
            return value  # click converts a default that is converted already
        parts = (part.strip() for part in value.split(","))
        names_in_order = dict.fromkeys(
            self._member.convert(name, param, ctx) for name in parts if name
        )
        if value.strip() and not names_in_order:
            self.fail(f"{value!r} has no names; write names, or leave it empty", param, ctx)
        return tuple(names_in_order)

    @override
    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return the placeholder of a single name; None for click's own."""
        return self._member.get_metavar(param, ctx)

    @override
    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the choices for the name after the last comma."""
        before, comma, last_name = incomplete.rpartition(",")
        items = self._member.shell_complete(ctx, param, last_name)
        return [
            CompletionItem(f"{before}{comma}{item.value}", item.type, item.help) for item in items
        ]


def name_list_option(
    *declarations: str,
    default: Sequence[str] = (),
    member: click.ParamType[str] = click.STRING,
    **attributes: Any,
) -> Callable[[F], F]:
    """Return an option that takes names separated by commas; repeated flags add up.

    Args:
        *declarations: the flags.
        default: the names if the flag is absent.
        member: the type of a name.
        **attributes: arguments of `option`.
    """
    return option(
        *declarations,
        type=NameList(member),
        multiple=True,
        default=list(default),
        callback=_join_lists,
        **attributes,
    )


def _join_lists(
    _: click.Context, __: click.Parameter, values: Sequence[Sequence[str]]
) -> tuple[str, ...]:
    """Return the names of all values of a repeated flag, each once."""
    return tuple(dict.fromkeys(name for value in values for name in value))


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def convert_duration(value: str | float) -> float:
    """Return the seconds of an option's value; click calls this for each duration.

    Raises:
        BadParameter: the value is no duration.
    """
    if isinstance(value, int | float):
        return float(value)
    seconds = parse_duration(value)
    if seconds is None:
        raise click.BadParameter(f"{value!r} is not a duration: write 500ms, 10s, 5m or 1h30m")
    return seconds


def parse_duration(duration: str) -> float | None:
    """Return the seconds of a duration such as 1m30s, or of a plain number.

    None if the text is neither.
    """
    if re.fullmatch(r"\d+(\.\d+)?", duration):
        return float(duration)
    if not re.fullmatch(rf"(?:{_PART.pattern})+", duration):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(duration))


_WORDS = (("hour", 3600.0), ("minute", 60.0), ("second", 1.0), ("millisecond", 0.001))


def describe_duration(seconds: float) -> str:
    """Return seconds in words: 90 is `1 minute 30 seconds`."""
    parts = []
    milliseconds = round(seconds * 1000)
    for word, size in _WORDS:
        count, milliseconds = divmod(milliseconds, round(size * 1000))
        if count:
            parts.append(f"{count} {word}{'' if count == 1 else 's'}")
    return " ".join(parts) or "0 seconds"


def duration_option(*declarations: str, default: float, **attributes: Any) -> Callable[[F], F]:
    """Return an option that takes a duration.

    Args:
        *declarations: the flags.
        default: seconds.
        **attributes: arguments of `option`.
    """
    return option(
        *declarations,
        type=convert_duration,
        default=render_duration(default),
        default_text=describe_duration(default),
        metavar="DURATION",
        **attributes,
    )


def render_duration(seconds: float) -> str:
    """Return the shortest text for `seconds`: 90 is 1m30s."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    whole, rest = divmod(seconds, 60)
    minutes = int(whole)
    parts = [(minutes // 60, "h"), (minutes % 60, "m"), (rest, "s")]
    return "".join(f"{number:g}{unit}" for number, unit in parts if number) or "0s"


def with_options(function: F, *options: Callable[[F], F]) -> F:
    """Return a command with options added, which --help lists in their order."""
    # As with stacked decorators, the last option is applied first.
    return reduce(lambda decorated, add_option: add_option(decorated), reversed(options), function)


def switch_option(*declarations: str, default: bool, **attributes: Any) -> Callable[[F], F]:
    """Return a boolean option in the form of Go's flags: --name, --name=true or --name=false."""
    return option(
        *declarations,
        default=default,
        is_flag=False,
        flag_value=True,
        type=click.BOOL,
        default_text=str(default).lower(),
        metavar="[=true|false]",
        **attributes,
    )
