"""Flags: each is an environment variable BUTLER_IPAM_<FLAG>, too, and each setting is a flag.

A field of reconcilers/configuration/settings.py gives the flag its section and name
(`pool.requeue_deleting` is --pool-requeue-deleting), its default, and its help: the sentence under
the field. So a setting cannot be forgotten here, nor described twice. Durations are written as in
Go: 500ms, 10s, 1h30m.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from reconcilers.cli import names
from reconcilers.configuration.settings import INTEGRATIONS, Settings

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

PREFIX = "BUTLER_IPAM_"


def envvar(flag: str) -> str:
    """Return the environment variable of a flag: `--webhook-port` is BUTLER_IPAM_WEBHOOK_PORT."""
    return PREFIX + flag.lstrip("-").replace("-", "_").upper()


def option(*declarations: str, **attributes: Any) -> Callable[[F], F]:
    """Return click's option decorator, with the environment variable of its long flag.

    Args:
        *declarations: the flags; the first long one names the variable.
        **attributes: what click.option takes. `envvar` may be given to name another variable.
    """
    long = next(flag for flag in declarations if flag.startswith("--"))
    # `--on/--off` is one declaration of click's for both flags.
    attributes.setdefault("envvar", envvar(long.partition("/")[0]))
    attributes.setdefault("show_envvar", True)
    attributes.setdefault("show_default", True)
    return click.option(*declarations, **attributes)


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
            return value
        parts = (part.strip() for part in value.split(","))
        names_in_order = dict.fromkeys(
            self._member.convert(name, param, ctx) for name in parts if name
        )
        if value.strip() and not names_in_order:
            self.fail(f"{value!r} has no names; write names, or leave it empty", param, ctx)
        return tuple(names_in_order)

    @override
    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._member.get_metavar(param, ctx)

    @override
    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the choices for the name after the last comma."""
        before, comma, last = incomplete.rpartition(",")
        items = self._member.shell_complete(ctx, param, last)
        return [
            CompletionItem(f"{before}{comma}{item.value}", item.type, item.help) for item in items
        ]


def name_list(
    *declarations: str,
    default: Sequence[str] = (),
    member: click.ParamType[str] = click.STRING,
    **attributes: Any,
) -> Callable[[F], F]:
    """Return an option whose values are names: separated by commas, and repeats add up.

    Args:
        *declarations: the flags.
        default: the names if the flag is absent.
        member: the type of a name.
        **attributes: what `option` takes.
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


def duration(value: str | float) -> float:
    """Return seconds from an option's value.

    Raises:
        BadParameter: it is no duration.
    """
    if isinstance(value, int | float):
        return float(value)
    seconds = parse(value)
    if seconds is None:
        raise click.BadParameter(f"{value!r} is no duration: write 500ms, 10s, 5m or 1h30m")
    return seconds


def parse(text: str) -> float | None:
    """Return the seconds that `text` says, None if it is no duration."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not re.fullmatch(rf"(?:{_PART.pattern})+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def rendered(seconds: float) -> str:
    """Return the shortest text for `seconds`: 90 is 1m30s."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    whole, rest = divmod(seconds, 60)
    minutes = int(whole)
    parts = [(minutes // 60, "h"), (minutes % 60, "m"), (rest, "s")]
    return "".join(f"{number:g}{unit}" for number, unit in parts if number) or "0s"


PLAIN: Mapping[tuple[str, str], str] = {
    ("pool", "max_addresses"): "--max-pool-addresses",
    ("tenant", "teardown_grace"): "--teardown-grace",
    ("tenant", "backfill_nodes"): "--backfill-node-allocations",
    ("tenant", "growth_after"): "--growth-after",
    ("tenant", "growth_when_exhausted"): "--growth-when-exhausted",
    ("tenant", "growth_in_flight"): "--growth-in-flight",
    ("tenant", "shrink_after"): "--shrink-after",
    ("tenant", "service_watches"): "--max-tenant-watches",
    ("tenant", "load_balancer_class"): "--load-balancer-class",
    ("tenant", "platform_service"): "--platform-service",
    ("tenant", "metallb_namespace"): "--metallb-namespace",
    ("tenant", "metallb_wait"): "--metallb-wait",
    ("tenant", "metallb_bundle"): "--metallb-bundle",
    ("tenant", "metallb_recheck"): "--metallb-recheck",
    ("tenant", "allow_proxy"): "--tenant-allow-proxy",
    ("tenant", "allow_insecure"): "--tenant-allow-insecure-tls",
}
"""Flags that are called otherwise than their field."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of the settings; `section` is empty for one of Settings itself."""

    section: str
    name: str
    default: Any
    help: str

    @property
    def flag(self) -> str:
        """Its flag, for example `--pool-resync`."""
        path = "-".join(part for part in (self.section, self.name) if part)
        return PLAIN.get((self.section, self.name), f"--{path.replace('_', '-')}")

    @property
    def parameter(self) -> str:
        """What click calls its value."""
        return self.flag.lstrip("-").replace("-", "_")


def settings_of(default: Settings) -> Iterator[Setting]:
    """Yield every setting, those of Settings itself first."""
    sections = [field for field in fields(default) if is_dataclass(getattr(default, field.name))]
    nested = {field.name for field in sections}
    yield from (one for one in _section_settings("", default) if one.name not in nested)
    for field in sections:
        yield from _section_settings(field.name, getattr(default, field.name))


def _section_settings(section: str, values: Any) -> Iterator[Setting]:
    docs = field_docs(type(values))
    for field in fields(values):
        yield Setting(section, field.name, getattr(values, field.name), docs.get(field.name, ""))


def field_docs(model: type) -> dict[str, str]:
    """Return the sentence under each field of a class, by name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        above.target.id: " ".join(below.value.value.split())
        for above, below in pairwise(body)
        if isinstance(above, ast.AnnAssign)
        and isinstance(above.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def with_options(function: F, *options: Callable[[F], F]) -> F:
    """Give a command these options, in this order."""
    return reduce(lambda decorated, give: give(decorated), reversed(options), function)


def cluster_options(function: F) -> F:
    """Give a command --kubeconfig and --context."""
    return with_options(
        function,
        option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            help="Kubeconfig file; if absent, as kubectl finds it, or the pod's service account.",
        ),
        option(
            "--context",
            shell_complete=names.contexts,
            help="Context in the kubeconfig; if absent, its current one.",
        ),
    )


def server_options(written: str) -> Callable[[F], F]:
    """Return the options --data and --kubeconfig; `written` says what the latter's file is."""
    data = option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder that keeps the objects; without, they are in memory only.",
    )
    kubeconfig = option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="BUTLER_IPAM_WRITE_KUBECONFIG",
        help=f"Where to write {written}.",
    )
    return lambda function: with_options(function, data, kubeconfig)


def setting_options(function: F) -> F:
    """Give a command one option for every setting; `settings` makes Settings of their values."""
    return with_options(function, *map(_option, settings_of(Settings())))


def setting_option(section: str, name: str) -> Callable[[F], F]:
    """Return the option of one setting, as `run` has it."""
    settings = settings_of(Settings())
    return _option(next(one for one in settings if (one.section, one.name) == (section, name)))


def switch(*declarations: str, default: bool, help: str) -> Callable[[F], F]:  # noqa: A002 - click's word
    """Return an option as Go's flags are: --name, --name=true or --name=false."""
    return option(
        *declarations,
        default=default,
        is_flag=False,
        flag_value=True,
        type=click.BOOL,
        metavar="[=true|false]",
        help=help,
    )


def _option(setting: Setting) -> Callable[[F], F]:
    more: dict[str, Any] = {"default": setting.default}
    match setting.default:
        case bool() as default:
            return switch(setting.flag, default=default, help=setting.help)
        case float() as default:
            more = {"type": duration, "default": rendered(default), "metavar": "DURATION"}
        case int():
            share = setting.name == "percent"  # the only one that has a most, and may be 0
            more["type"] = click.IntRange(0, 100) if share else click.IntRange(min=1)
        case tuple() as default if setting.name == "integration":
            member = click.Choice(INTEGRATIONS)
            return name_list(setting.flag, default=default, member=member, help=setting.help)
        case tuple() as default:
            metavar = "NAMESPACE,..."
            return name_list(setting.flag, default=default, metavar=metavar, help=setting.help)
        case _:
            pass
    return option(setting.flag, **more, help=setting.help)


def settings(values: Mapping[str, Any]) -> Settings:
    """Return the settings that the options' values say; takes what `setting_options` gave."""
    result = Settings()
    chosen: dict[str, dict[str, Any]] = {}
    for setting in settings_of(result):
        chosen.setdefault(setting.section, {})[setting.name] = values[setting.parameter]
    top = chosen.pop("", {})
    nested = {name: replace(getattr(result, name), **some) for name, some in chosen.items()}
    return replace(result, **top, **nested)
