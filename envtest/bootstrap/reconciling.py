"""Default roles and bindings that are not as they should be, and what is done about it.

The rule is that of kube-apiserver's start: what is missing is added, whatever else is there stays.
An annotation keeps single objects from being touched at all.
"""

from typing import Any

from envtest.access.coverage import missing
from envtest.bootstrap.policy import AUTOUPDATE

Body = dict[str, Any]


def is_protected(live: Body) -> bool:
    """Tell whether somebody has asked for an object to be left alone."""
    annotations = live["metadata"].get("annotations") or {}
    return bool(annotations.get(AUTOUPDATE) == "false")


def mended_role(live: Body, wanted: Body) -> Body:
    """Return a role with at least the rules and labels that it should have.

    Rules are compared by the single rights that they grant; each right that is missing becomes a
    rule of its own.
    """
    mended = {**live, "metadata": _labelled(live, wanted)}
    ours, theirs = wanted.get("aggregationRule"), live.get("aggregationRule")
    if not ours:
        mended.pop("aggregationRule", None)
        rules = live.get("rules") or []
        # Nearly always all is as it was made, which is seen without taking it apart.
        lacking = missing(rules, [one for one in wanted.get("rules") or () if one not in rules])
        if lacking:
            mended["rules"] = [*rules, *lacking]
        return mended
    selectors = (theirs or {}).get("clusterRoleSelectors") or []
    added = [one for one in ours["clusterRoleSelectors"] if one not in selectors]
    if added:
        mended["aggregationRule"] = {"clusterRoleSelectors": [*selectors, *added]}
    return mended


def mended_binding(live: Body, wanted: Body) -> Body | None:
    """Return a binding with at least the subjects that it should have.

    Returns:
        The binding; None if it is one to another role, which no update can mend.
    """
    if live["roleRef"] != wanted["roleRef"]:
        return None
    mended = {**live, "metadata": _labelled(live, wanted)}
    subjects = live.get("subjects") or []
    added = [one for one in wanted.get("subjects") or () if one not in subjects]
    if added:
        mended["subjects"] = [*subjects, *added]
    return mended


def _labelled(live: Body, wanted: Body) -> Body:
    """Return metadata with the labels and annotations that are missing; values stay."""
    meta = dict(live["metadata"])
    for name in ("labels", "annotations"):
        meta[name] = {**wanted["metadata"][name], **(meta.get(name) or {})}
    return meta
