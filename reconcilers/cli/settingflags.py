"""Flags of the settings: each field of reconcilers/configuration/settings.py is a flag.

The flag's name comes from the section and the field: `pool.requeue_deleting` is
--pool-requeue-deleting. Its default is that of the field, and its help is the sentence under the
field. So each setting is a flag, and is described in one place.
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
from reconcilers.cli.flags import (
    duration_option,
    name_list_option,
    option,
    switch_option,
    with_options,
)
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
"""The flags whose names do not follow from their fields."""


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
"""Section, prefix of the field's name, and heading; the first entry that fits counts."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of the settings.

    Args:
        section: the field of Settings that has this field; empty for a field of Settings itself.
        help: the sentence under the field.
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
    def group(self) -> str:
        """The heading under which `run --help` lists it."""
        for section, beginning, group in _GROUPS:
            if self.section == section and self.name.startswith(beginning):
                return group
        if isinstance(self.default, float):  # durations are floats
            return groups.INTERVALS
        return groups.ORPHANS if self.section == "orphans" else groups.POOLS

    @property
    def parameter(self) -> str:
        """The name under which click passes the value of the flag."""
        return self.flag.lstrip("-").replace("-", "_")


def list_settings(default: Settings) -> Iterator[Setting]:
    """Yield every setting: the fields of Settings itself, then those of its sections."""
    sections = [field for field in fields(default) if is_dataclass(getattr(default, field.name))]
    nested = {field.name for field in sections}
    yield from (
        setting for setting in _list_section_settings("", default) if setting.name not in nested
    )
    for field in sections:
        yield from _list_section_settings(field.name, getattr(default, field.name))


def _list_section_settings(section: str, values: Any) -> Iterator[Setting]:
    """Yield the settings of one section, from the fields of its dataclass."""
    docs = read_field_docs(type(values))
    for field in fields(values):
        yield Setting(
            section, field.name, default=getattr(values, field.name), help=docs.get(field.name, "")
        )


def read_field_docs(model: type) -> dict[str, str]:
    """Return the docstring under each field of a class, by the field's name.

    Python does not keep these strings, so they are read from the source.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        statement.target.id: " ".join(following.value.value.split())
        for statement, following in pairwise(body)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    }


def setting_options(function: F) -> F:
    """Give a command an option for each setting; `build_settings` reads their values."""
    return with_options(function, *map(_build_option, list_settings(Settings())))


def setting_option(section: str, name: str) -> Callable[[F], F]:
    """Return the option of one setting, for a command with only some of the options of `run`."""
    return _build_option(
        next(
            setting
            for setting in list_settings(Settings())
            if (setting.section, setting.name) == (section, name)
        )
    )


def _build_option(setting: Setting) -> Callable[[F], F]:
    """Return the option of a setting; its form follows from the type of the default."""
    common: dict[str, Any] = {"group": setting.group, "help": setting.help}
    match setting.default:
        case bool() as default:
            return switch_option(setting.flag, default=default, **common)
        case float() as default:
            return duration_option(setting.flag, default=default, **common)
        case int() as default:
            # A percentage is the only number with a maximum, and the only one that may be 0.
            is_percentage = setting.name == "percent"
            kind = click.IntRange(0, 100) if is_percentage else click.IntRange(min=1)
            return option(setting.flag, default=default, type=kind, metavar="NUMBER", **common)
        case tuple() as default if setting.name == "integration":
            return name_list_option(
                setting.flag, default=default, member=click.Choice(INTEGRATIONS), **common
            )
        case tuple() as default:
            return name_list_option(
                setting.flag, default=default, metavar="NAMESPACE,...", **common
            )
        case default:
            return option(setting.flag, default=default, metavar="NAME", **common)


def build_settings(values: Mapping[str, Any]) -> Settings:
    """Return the settings from the values of all options of `setting_options`."""
    result = Settings()
    chosen: dict[str, dict[str, Any]] = {}
    for setting in list_settings(result):
        chosen.setdefault(setting.section, {})[setting.name] = values[setting.parameter]
    top = chosen.pop("", {})
    nested = {name: replace(getattr(result, name), **changes) for name, changes in chosen.items()}
    return replace(result, **top, **nested)
