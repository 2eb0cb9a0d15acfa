"""How scales are shown in tables: in the same columns, whatever columns their objects have."""

from typing import Any, Final

from envtest.schema.tables import table_cells, table_columns
from envtest.schema.wording import CREATION_TIMESTAMP
from envtest.server import clock
from envtest.server.objectmeta import Body
from envtest.server.rules import Cells, Column


def _own(desired: str, available: str) -> list[dict[str, Any]]:
    return [
        _column("Desired", "integer", ".spec.replicas", desired),
        _column("Available", "integer", ".status.replicas", available),
        _column("Age", "date", ".metadata.creationTimestamp", CREATION_TIMESTAMP),
    ]


def _column(name: str, kind: str, path: str, description: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path, "description": description}


_CUSTOM: Final = table_columns(
    {"additionalPrinterColumns": _own("Number of desired replicas", "Number of actual replicas")}
)
_BUILT_IN: Final = table_columns(
    {
        "additionalPrinterColumns": _own(
            "replicas is the desired number of instances for the scaled object.",
            "replicas is the actual number of observed instances of the scaled object.",
        )
    }
)


class ScaleRows:
    """The columns and the row of a scale."""

    def __init__(self, *, custom: bool) -> None:
        self._custom = custom
        self._columns = _CUSTOM if custom else _BUILT_IN

    def columns(self) -> list[Column]:
        """Return the columns; built-in kinds say nothing of formats, and call ages text."""
        if self._custom:
            return [
                Column(one.name, one.type, one.description, one.format) for one in self._columns
            ]
        return [
            Column(one.name, "string" if one.type == "date" else one.type, one.description)
            for one in self._columns
        ]

    def cells(self, body: Body) -> Cells:
        """Return a scale's row."""
        return table_cells(self._columns, body, clock.now())
