"""A kubeconfig's YAML from somebody who may mean harm: bounded, and nothing but text."""

from collections.abc import Mapping
from typing import Any

import yaml

from controller.errors import ConfigurationError

MAX_BYTES = 256 * 1024
MAX_DEPTH = 16
MAX_NODES = 10_000

# libyaml where it is built in: the pure parser takes a second for what the bound lets through.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def load_strictly(data: bytes) -> Mapping[str, Any]:
    """Return the mapping that `data` holds; every scalar in it is text, as written.

    Raises:
        ConfigurationError: it is none, or larger, deeper or more tangled than a kubeconfig is.
    """
    if len(data) > MAX_BYTES:
        raise ConfigurationError(f"the kubeconfig is larger than {MAX_BYTES} bytes")
    try:
        _refuse_bombs(data)
        document = yaml.load(data, Loader=_LOADER)  # noqa: S506 - knows strings, lists, mappings
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark is not None else ""
        raise ConfigurationError(f"the kubeconfig is no YAML{line}") from error
    if not isinstance(document, dict):
        raise ConfigurationError("the kubeconfig is no YAML mapping")
    return document


def _refuse_bombs(data: bytes) -> None:
    """Refuse what grows when it is loaded: aliases, and brackets without end."""
    depth = 0
    for number, event in enumerate(yaml.parse(data, Loader=_LOADER)):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigurationError("the kubeconfig uses YAML aliases, which are not accepted")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH or number > MAX_NODES:
            raise ConfigurationError("the kubeconfig is nested too deeply or has too many entries")
