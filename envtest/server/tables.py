"""Tables and bare metadata: what `kubectl get` and metadata clients ask for."""

from collections.abc import Iterable
from typing import Any, Protocol

from envtest.schema.errors import aggregate_message, invalid
from envtest.server.failures import bad_request
from envtest.server.objectmeta import Body
from envtest.server.rules import Cells, Column

_CHOICES = "must be 'Metadata', 'Object', 'None', or empty"


class Rows(Protocol):
    """What objects of a kind show of themselves in a table."""

    def columns(self) -> list[Column]:
        """Return the columns."""

    def cells(self, body: Body) -> Cells:
        """Return an object's row."""


def check_include(include: str) -> None:
    """Refuse rows that carry what is none of the choices.

    Raises:
        StatusError: 400.
    """
    if include not in {"", "None", "Metadata", "Object"}:
        problem = invalid("includeObject", include, _CHOICES)
        raise bad_request(
            f"Unable to convert to Table as requested: {aggregate_message([problem])}"
        )


def table(
    rows: Rows,
    bodies: Iterable[dict[str, Any]],
    *,
    meta: dict[str, Any],
    include: str = "Metadata",
    version: str = "v1",
    headers: bool = True,
) -> dict[str, Any]:
    """Return a Table.

    Args:
        rows: how the objects are shown.
        bodies: the objects, with apiVersion and kind.
        meta: the table's own metadata.
        include: `None`, `Metadata` or `Object`: what each row carries of its object.
        version: of meta.k8s.io.
        headers: whether to describe the columns; later events of a watch leave that out.
    """
    columns = rows.columns()
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": meta,
        "columnDefinitions": [column.as_dict() for column in columns] if headers else None,
        "rows": [_row(rows, body, include, version) for body in bodies],
    }


def _row(rows: Rows, body: dict[str, Any], include: str, version: str) -> dict[str, Any]:
    carried: dict[str, Any] | None = None
    if include == "Object":
        carried = body
    elif include != "None":
        carried = partial(body, version)
    return {"cells": rows.cells(body), "object": carried}


def partial(body: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    """Return an object's PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": body["metadata"],
    }


def partial_list(
    bodies: Iterable[dict[str, Any]], *, meta: dict[str, Any], version: str = "v1"
) -> dict[str, Any]:
    """Return a PartialObjectMetadataList."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": meta,
        # Where there are none Go's list is a null.
        "items": [partial(body, version) for body in bodies] or None,
    }
