"""Every interval and threshold as a flag, made of the fields of reconcilers/settings.py.

A field's flag is its section and name (`pool.requeue_deleting` is --pool-requeue-deleting), its
default the field's, its help the sentence under the field, its variable BUTLER_IPAM_<FLAG>. So a
setting cannot be forgotten here, nor told two ways.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any, TypeVar

import click

from reconcilers.cli import durations
from reconcilers.cli.options import option
from reconcilers.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

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
    ("tenant", "metallb_bundle"): "--metallb-bundle",
    ("tenant", "metallb_recheck"): "--metallb-recheck",
    ("tenant", "allow_proxy"): "--tenant-allow-proxy",
    ("tenant", "allow_insecure"): "--tenant-allow-insecure-tls",
}
"""Flags that are called otherwise than their field."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of the settings.

    Args:
        section: the field of Settings it is in; empty for one of Settings itself.
        name: its name there.
        default: its default.
        help: what it is, one sentence.
    """

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
    yield from (one for one in _section("", default) if one.name not in nested)
    for field in sections:
        yield from _section(field.name, getattr(default, field.name))


def _section(section: str, values: Any) -> Iterator[Setting]:
    told = field_docs(type(values))
    for field in fields(values):
        yield Setting(section, field.name, getattr(values, field.name), told.get(field.name, ""))


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


def setting_options(function: F) -> F:
    """Give a command one option for every setting; `settings` makes Settings of their values."""
    found = reversed(list(settings_of(Settings())))
    return reduce(lambda decorated, one: _option(one)(decorated), found, function)


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
    match setting.default:
        case bool() as default:
            return switch(setting.flag, default=default, help=setting.help)
        case float() as default:
            return option(
                setting.flag,
                type=durations.duration,
                default=durations.rendered(default),
                metavar="DURATION",
                help=setting.help,
            )
        case int() as default:
            return option(
                setting.flag, type=click.IntRange(min=1), default=default, help=setting.help
            )
        case default:
            return option(setting.flag, default=default, help=setting.help)


def settings(values: Mapping[str, Any]) -> Settings:
    """Return the settings that the options' values say; takes what `setting_options` gave."""
    result = Settings()
    chosen: dict[str, dict[str, Any]] = {}
    for setting in settings_of(result):
        chosen.setdefault(setting.section, {})[setting.name] = values[setting.parameter]
    top = chosen.pop("", {})
    nested = {name: replace(getattr(result, name), **some) for name, some in chosen.items()}
    return replace(result, **top, **nested)
