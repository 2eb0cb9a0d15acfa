"""ClusterRoles that are made up of others: their rules follow the labels of those.

In a cluster kube-controller-manager does this. Here it belongs to authorization, because without
it `admin`, `edit` and `view` would grant nothing. It happens in the same turn as the write that it
follows, so the next request is already authorized by it.
"""

from typing import Any

import msgspec

from envtest.access.rbac import GROUP
from envtest.server.api import Api
from envtest.server.selectors import read_label_selector
from envtest.storage import StoredChange

_PLACE = f"{GROUP}/clusterroles"
Body = dict[str, Any]

_decode = msgspec.json.Decoder().decode


class Aggregation:
    """Keeps the rules of aggregated ClusterRoles up to date."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._at_work = False

    def attach(self) -> None:
        """Aggregate the present roles, then again after each change."""
        self._settle()
        self._api.store.table(_PLACE).listeners.append(self._notice)

    def _notice(self, event: StoredChange) -> None:  # noqa: ARG002  # every change counts
        if not self._at_work:
            self._settle()

    def _settle(self) -> None:
        """Write until nothing changes: roles that are aggregated may be parts of others."""
        roles = self._roles()
        aggregated = [key for key, body in roles.items() if body.get("aggregationRule")]
        self._at_work = True
        try:
            while any(self._renew(key, roles) for key in aggregated):
                pass
        finally:
            self._at_work = False

    def _roles(self) -> dict[str, Body]:
        table = self._api.store.table(_PLACE)
        entries = ((key, table.get(key)) for key in table.scan())
        return {key: _decode(stored.body) for key, stored in entries if stored}

    def _renew(self, key: str, roles: dict[str, Body]) -> bool:
        """Set the rules of one role; return whether they changed."""
        body = roles[key]
        rules: list[Any] = []
        for raw_selector in body["aggregationRule"].get("clusterRoleSelectors") or ():
            selector = read_label_selector(raw_selector)
            for name, other in roles.items():
                if name != key and selector.matches(other["metadata"].get("labels") or {}):
                    rules += [rule for rule in other.get("rules") or () if rule not in rules]
        if rules == (body.get("rules") or []):
            return False
        roles[key] = {**body, "rules": rules}
        self._api.store.write(_PLACE, key, roles[key])
        return True
