"""Columns of the tables that `kubectl get` shows for built-in kinds.

Names, types and cells are the real server's, whose tables are always wide; most descriptions are
our own.
"""

from collections.abc import Sequence

from envtest.builtins.columns.cells import AGE, TITLE, Entry
from envtest.builtins.columns.cluster import CLUSTER
from envtest.builtins.columns.control import CONTROL
from envtest.builtins.columns.infrastructure import INFRASTRUCTURE
from envtest.builtins.columns.network import NETWORK
from envtest.builtins.columns.storage import STORAGE
from envtest.builtins.columns.workloads import WORKLOADS

_KNOWN = {**CLUSTER, **CONTROL, **INFRASTRUCTURE, **NETWORK, **STORAGE, **WORKLOADS}
_OTHERS = (TITLE, AGE)


def columns_of(kind: str) -> Sequence[Entry]:
    """Return the columns of a kind, with the functions that read their cells."""
    return _KNOWN.get(kind, _OTHERS)
