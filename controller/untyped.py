"""Objects of kinds that have no class: decoded JSON with typed metadata."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.meta import ObjectMeta


@dataclass(frozen=True, slots=True)
class Untyped:
    """An object of any kind; the `type` of a Resource whose fields are not known in advance.

    It costs more memory than a class that names the fields which are read, because everything is
    kept. What is in `body` is shared with all readers of a cache: never change it.

    Args:
        metadata: the metadata, as of every object.
        body: the whole object as decoded JSON: `obj.body["spec"]["replicas"]`.
    """

    metadata: ObjectMeta
    body: Mapping[str, Any]
