"""Writes what of the chart is made of other things: README.md and, in the schema, the settings.

The README's table is made of the comments in values.yaml. The schema's settings are the flags of
`butler-ipam run` but those that the chart sets itself, so that Helm refuses a mistyped flag before
a pod refuses to start. Tests fail while a file differs from what this would write.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from reconcilers.cli.flags import NameList
from reconcilers.cli.run import run

CHART = Path(__file__).parent.parent / "manifests/chart"
OF_THE_CHART = (
    "context",
    "health-",
    "integration",
    "kubeconfig",
    "leader-elect",
    "log-",
    "metrics-",
    "namespace",
    "ui-",
)
"""Beginnings of flags that other values than `settings` stand for."""
STILL_SETTINGS = ("leader-elect-", "metrics-cert-dir")
SEVEN_DIGITS = 999_999
"""Helm writes larger numbers as 1e+06: they have to be given as text."""
HEAD = """\
# butler-ipam

{description}.

    helm upgrade --install butler-ipam butler-ipam-{version}.tgz \\
      -n butler-system --create-namespace
    helm test butler-ipam -n butler-system

It needs Kubernetes 1.31 or newer. A release's package names the release's image; with the chart
of a checkout, name the one that you build and host by `image.repository`. `helm test` reads all
pools, allocations, clusters and providers under the controller's account, and fails if
`butler-ipam check` finds an error among them.

The [operator's guide]({home}/blob/main/OPERATIONS.md) has installation, upgrade, migration from
Butler's controller, backup and runbooks; the [reference]({home}/blob/main/API.md) has every field.
Uninstalling keeps the CustomResourceDefinitions, and with them all objects, unless `crds.keep` is
false. Unknown and malformed values are refused by a schema.

## Values

| value | default | what it is |
|---|---|---|
"""


def schema() -> str:
    """Return values.schema.json with the settings that there are."""
    whole = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    flags = {name: _build_value_schema(option) for name, option in settings()}
    whole["properties"]["settings"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": flags,
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def settings() -> Iterator[tuple[str, click.Parameter]]:
    """Yield the flags that are left to `settings`, without their dashes."""
    for option in run.params:
        name = option.opts[0].removeprefix("--")
        if name.startswith(STILL_SETTINGS) or not name.startswith((*OF_THE_CHART, "webhook-")):
            yield name, option


def _build_value_schema(option: click.Parameter) -> Mapping[str, Any]:
    """Return the schema of a flag's value."""
    kind = option.type
    if isinstance(kind, click.types.BoolParamType):
        return {"enum": [True, False, "true", "false"]}
    if isinstance(kind, click.IntRange):
        most = SEVEN_DIGITS if kind.max is None else int(kind.max)
        number = {"type": "integer", "minimum": kind.min or 0, "maximum": most}
        return {"anyOf": [number, {"type": "string", "pattern": "^[0-9]+$"}]}
    if isinstance(kind, click.types.FuncParamType):
        duration = {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h)?)+$"}
        return {"anyOf": [duration, {"type": "number", "minimum": 0, "maximum": SEVEN_DIGITS}]}
    if isinstance(kind, NameList):
        names = {"type": "array", "items": {"type": "string"}}
        return {"anyOf": [{"type": "string"}, names]}
    return {"type": "string"}


def readme() -> str:
    """Return README.md."""
    meta = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = [
        f"| `{path}` | `{json.dumps(_at(values, path))}` | {said} |\n".replace('`""`', "empty")
        for path, said in list_documented_values()
    ]
    return HEAD.format(**meta) + "".join(rows)


def list_documented_values() -> Iterator[tuple[str, str]]:
    """Yield each value that a comment of values.yaml documents, with the comment."""
    path: list[str] = []
    said = ""
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r" *# -- (.+)", line):
            said = match[1]
        elif match := re.match(r"( *)([A-Za-z]+):", line):
            path[len(match[1]) // 2 :] = [match[2]]
            if said:
                yield ".".join(path), said
            said = ""


def _at(values: Any, path: str) -> Any:
    for name in path.split("."):
        values = values[name]
    return values


def main() -> None:
    """Write both files."""
    for name, content in (("values.schema.json", schema()), ("README.md", readme())):
        (CHART / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
