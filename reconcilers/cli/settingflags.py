"""Flags of the settings: each field of reconcilers/configuration/settings.py is a flag.

A field gives the flag its section and name (`pool.requeue_deleting` is --pool-requeue-deleting),
its default, and its help: the sentence under the field. So a setting cannot be forgotten here, nor
described twice.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import click

from reconcilers.cli import groups
from reconcilers.cli.flags import duration_option, name_list, option, switch, with_options
from reconcilers.configuration.integrationnames import INTEGRATIONS
from reconcilers.configuration.settings import Settings

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

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
    ("tenant", "cilium_wait"): "--cilium-wait",
    ("tenant", "metallb_bundle"): "--metallb-bundle",
    ("tenant", "metallb_recheck"): "--metallb-recheck",
    ("tenant", "allow_proxy"): "--tenant-allow-proxy",
    ("tenant", "allow_insecure"): "--tenant-allow-insecure-tls",
}
"""Flags that are called otherwise than their field."""


_GROUPS: Sequence[tuple[str, str, str]] = (
    ("", "namespace", groups.CLUSTER),
    ("", "concurrency", groups.PROCESS),
    ("", "integration", groups.INTEGRATIONS),
    ("kubermatic", "", groups.INTEGRATIONS),
    ("vitistack", "", groups.INTEGRATIONS),
    ("tenant", "growth_", groups.ELASTIC),
    ("tenant", "shrink_", groups.ELASTIC),
    ("tenant", "metallb_", groups.BALANCERS),
    ("tenant", "cilium_", groups.BALANCERS),
    ("tenant", "load_balancer_class", groups.BALANCERS),
    ("tenant", "platform_service", groups.BALANCERS),
    ("tenant", "requeue_", groups.INTERVALS),
    ("tenant", "", groups.TENANTS),
)
"""Section, beginning of the field's name, and the heading; the first that fits counts."""


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
    def group(self) -> str:
        """The heading under which `run --help` lists it."""
        for section, beginning, group in _GROUPS:
            if self.section == section and self.name.startswith(beginning):
                return group
        if isinstance(self.default, float):
            return groups.INTERVALS
        return groups.ORPHANS if self.section == "orphans" else groups.POOLS

    @property
    def parameter(self) -> str:
        """What click calls its value."""
        return self.flag.lstrip("-").replace("-", "_")


def settings_of(default: Settings) -> Iterator[Setting]:
    """Yield every setting, those of Settings itself first."""
    sections = [field for field in fields(default) if is_dataclass(getattr(default, field.name))]
    nested = {field.name for field in sections}
    yield from (
        setting for setting in _section_settings("", default) if setting.name not in nested
    )
    for field in sections:
        yield from _section_settings(field.name, getattr(default, field.name))


def _section_settings(section: str, values: Any) -> Iterator[Setting]:
    docs = field_docs(type(values))
    for field in fields(values):
        yield Setting(
            section, field.name, default=getattr(values, field.name), help=docs.get(field.name, "")
        )


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
    return with_options(function, *map(_option, settings_of(Settings())))


def setting_option(section: str, name: str) -> Callable[[F], F]:
    """Return the option of one setting, as `run` has it."""
    settings = settings_of(Settings())
    return _option(
        next(setting for setting in settings if (setting.section, setting.name) == (section, name))
    )


def _option(setting: Setting) -> Callable[[F], F]:
    common: dict[str, Any] = {"group": setting.group, "help": setting.help}
    match setting.default:
        case bool() as default:
            return switch(setting.flag, default=default, **common)
        case float() as default:
            return duration_option(setting.flag, default=default, **common)
        case int() as default:
            share = setting.name == "percent"  # the only one that has a most, and may be 0
            kind = click.IntRange(0, 100) if share else click.IntRange(min=1)
            return option(setting.flag, default=default, type=kind, metavar="NUMBER", **common)
        case tuple() as default if setting.name == "integration":
            return name_list(
                setting.flag, default=default, member=click.Choice(INTEGRATIONS), **common
            )
        case tuple() as default:
            return name_list(setting.flag, default=default, metavar="NAMESPACE,...", **common)
        case default:
            return option(setting.flag, default=default, metavar="NAME", **common)


def settings(values: Mapping[str, Any]) -> Settings:
    """Return the settings that the options' values say; takes what `setting_options` gave."""
    result = Settings()
    chosen: dict[str, dict[str, Any]] = {}
    for setting in settings_of(result):
        chosen.setdefault(setting.section, {})[setting.name] = values[setting.parameter]
    top = chosen.pop("", {})
    nested = {name: replace(getattr(result, name), **changes) for name, changes in chosen.items()}
    return replace(result, **top, **nested)
