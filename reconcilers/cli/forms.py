"""The formats in which commands print what they show: the values of -o."""

from collections.abc import Sequence
from typing import Literal

Form = Literal["table", "wide", "json", "yaml", "name"]
FORMS: Sequence[Form] = ("table", "wide", "json", "yaml", "name")
