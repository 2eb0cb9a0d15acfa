"""Rebuild `wire.json` with Go: python -m tests.realservers.harvest.wire.

kubectl sends many built-in kinds as protobuf. The numbers of the fields are in
the tags of Go's types, which a small program prints: for each message and number the name in
JSON, the kind of value, its shape and, where it is a message, which one. Shapes are

- `value`: always on the wire; not in JSON where it is empty
- `shown`: always on the wire and, for texts, numbers and flags, in JSON
- `pointer`: on the wire and in JSON where it is set, empty or not
- `list`, `map`: on the wire and in JSON where it has elements
- `inline`: a message whose fields JSON has among those of the message around it.

Program descriptors, which older programs carry, would do as well; those of 1.36 have none.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import envtest.kinds
from envtest.kinds.catalogue import build_schema_name, list_resources

VERSION = "v0.36.2"
_MODULES = ("api", "apiextensions-apiserver", "apimachinery", "client-go")
# Bodies that are of no resource's kind.
_ALSO = (
    "io.k8s.api.authentication.v1.TokenRequest",
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)
# Types whose JSON is not that of their fields; the reader knows them by name.
_SPECIAL = ("Time", "MicroTime", "Quantity", "IntOrString", "RawExtension", "FieldsV1", "JSON")

Messages = dict[str, dict[str, list[str]]]


def main() -> int:
    """Read, choose and write; print what was written."""
    facts = _facts()
    schema_names = [
        build_schema_name(*_split_group_version(group_version), entry["kind"])
        for group_version, entries in list_resources().items()
        for entry in entries
        if "group" not in entry
    ]
    chosen = _reachable(facts, [*schema_names, *_ALSO])
    content = json.dumps(chosen, sort_keys=True, separators=(",", ":"))
    target = Path(envtest.kinds.__file__).with_name("wire.json")
    target.write_text(content + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}: {len(content)} bytes, {len(chosen)} messages\n")
    return 0


def _facts() -> Messages:
    """Run the Go program against the published modules."""
    lines = ["module facts", "go 1.26"]
    lines += [f"require k8s.io/{module} {VERSION}" for module in _MODULES]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "go.mod").write_text("\n".join(lines) + "\n", encoding="utf-8")
        shutil.copy(Path(__file__).with_suffix(".go"), Path(folder, "main.go"))
        go = shutil.which("go") or "go"
        subprocess.run([go, "mod", "tidy"], cwd=folder, check=True)
        done = subprocess.run([go, "run", "."], cwd=folder, check=True, stdout=subprocess.PIPE)
    messages: Messages = json.loads(done.stdout)
    return messages


def _split_group_version(group_version: str) -> tuple[str, str]:
    group, _, version = group_version.rpartition("/")
    return group, version


def _reachable(messages: Messages, todo: list[str]) -> dict[str, Any]:
    """Keep what the wanted messages need."""
    chosen: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name not in chosen and name.rpartition(".")[2] not in _SPECIAL:
            chosen[name] = dict(sorted(messages[name].items(), key=lambda item: int(item[0])))
            todo += [inner for _, _, _, inner in messages[name].values() if inner]
    return chosen


if __name__ == "__main__":
    sys.exit(main())
