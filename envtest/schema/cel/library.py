"""Every function that a rule may call, in one table."""

from __future__ import annotations

from typing import Final

from envtest.schema.cel.authorization import AUTHORIZATION
from envtest.schema.cel.functions import Table, merged
from envtest.schema.cel.kubelists import LISTS
from envtest.schema.cel.network import NETWORK
from envtest.schema.cel.optionals import OPTIONALS
from envtest.schema.cel.quantities import QUANTITIES
from envtest.schema.cel.standard import STANDARD
from envtest.schema.cel.texts import TEXTS

FUNCTIONS: Final[Table] = merged(
    [STANDARD, OPTIONALS, TEXTS, LISTS, QUANTITIES, NETWORK, AUTHORIZATION]
)
# The first parts of names such as `sets.contains`: they look like variables and are none.
NAMESPACES: Final = frozenset(name.partition(".")[0] for name in FUNCTIONS if "." in name)
