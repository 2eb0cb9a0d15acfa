"""Aggregated ClusterRoles, whose rules are those of all ClusterRoles that their selectors match.

In a cluster kube-controller-manager does this. Here it belongs to authorization, because without
it `admin`, `edit` and `view` would grant nothing. It runs in the same turn of the event loop as
the write of a role, so the next request is authorized by the new rules.
"""

from typing import Any

import msgspec

from envtest.access.rbac import GROUP
from envtest.server.api import Api
from envtest.server.selectors import convert_label_selector
from envtest.storage import StoredChange

_TABLE_NAME = f"{GROUP}/clusterroles"
Body = dict[str, Any]

_decode = msgspec.json.Decoder().decode


class Aggregation:
    """Keeps the rules of aggregated ClusterRoles up to date."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._is_writing = False

    def subscribe_to_store(self) -> None:
        """Aggregate the present roles, then again after each change."""
        self._aggregate_all()
        self._api.store.get_table(_TABLE_NAME).listeners.append(self._process_change)

    def _process_change(self, event: StoredChange) -> None:  # noqa: ARG002  # any change may matter
        """Aggregate again after a change, unless it is a write of the aggregation itself."""
        if not self._is_writing:
            self._aggregate_all()

    def _aggregate_all(self) -> None:
        """Update aggregated roles until none changes, as they may be parts of one another."""
        roles = self._read_roles()
        aggregated_keys = [key for key, body in roles.items() if body.get("aggregationRule")]
        self._is_writing = True
        try:
            while any(self._update_rules(key, roles) for key in aggregated_keys):
                pass
        finally:
            self._is_writing = False

    def _read_roles(self) -> dict[str, Body]:
        """Return all ClusterRoles by name."""
        table = self._api.store.get_table(_TABLE_NAME)
        entries = ((key, table.get(key)) for key in table.iterate_keys())
        return {key: _decode(stored.body) for key, stored in entries if stored}

    def _update_rules(self, key: str, roles: dict[str, Body]) -> bool:
        """Set the rules of one aggregated role; return whether they changed.

        Args:
            key: the name of the role.
            roles: all roles; a changed role is replaced in it.
        """
        body = roles[key]
        rules: list[Any] = []
        for raw_selector in body["aggregationRule"].get("clusterRoleSelectors") or ():
            selector = convert_label_selector(raw_selector)
            for name, other_role in roles.items():
                if name != key and selector.matches(other_role["metadata"].get("labels") or {}):
                    rules += [rule for rule in other_role.get("rules") or () if rule not in rules]
        if rules == (body.get("rules") or []):
            return False
        roles[key] = {**body, "rules": rules}
        self._api.store.write(_TABLE_NAME, key, roles[key])
        return True
