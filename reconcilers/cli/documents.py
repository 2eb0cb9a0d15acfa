"""Kubernetes objects as text on stdout: YAML documents, one YAML list, or JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

_WIDTH = 100


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # C if there
    """Writes what equals twice out twice: people read no anchors."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


# What was read from a file knows its lines, and is a dict or list all the same.
_Dumper.add_multi_representer(dict, yaml.SafeDumper.represent_dict)
_Dumper.add_multi_representer(list, yaml.SafeDumper.represent_list)


def as_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the objects as YAML, separated by `---`."""
    return "---\n".join(
        yaml.dump(
            document,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=_WIDTH,
            default_flow_style=False,
        )
        for document in documents
    )


def as_json(document: Mapping[str, Any]) -> str:
    """Return one object as indented JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_list(items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the objects as a v1 List."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(items)}
