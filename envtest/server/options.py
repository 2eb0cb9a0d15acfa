"""Query parameters: the CreateOptions, PatchOptions, ListOptions and so on of meta/v1.

Each is parsed once, at the edge, with the refusals that the real server has for nonsense.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from controller.managedfields import check_manager
from envtest.schema.errors import FieldError, build_required_error, forbidden, not_supported
from envtest.server.failures import as_error, bad_request, invalid_object
from envtest.server.rules import Rules
from envtest.server.selectors import FieldSelector, LabelSelector, parse_fields, parse_labels
from envtest.wire.texts import number_fault

_FIELD_VALIDATION = ("", "Ignore", "Strict", "Warn")
META_GROUP = "meta.k8s.io"


class WriteOptions(msgspec.Struct, frozen=True):
    """What CreateOptions, UpdateOptions and PatchOptions have in common."""

    dry_run: bool
    manager: str
    field_validation: str
    force: bool


@dataclass(frozen=True, slots=True)
class ListOptions:
    """How to list or watch."""

    labels: LabelSelector
    fields: FieldSelector
    limit: int
    token: str
    # The resourceVersion as it was given: nothing, `0`, a revision, or what is none.
    version: str
    match: str
    watch: bool
    bookmarks: bool
    initial_events: bool | None
    # Seconds; 0 for as long as the server likes.
    timeout: int


def write_options(
    kind: str,
    query: Mapping[str, str],
    dry_runs: Sequence[str],
    agent: str,
    *,
    apply: bool = False,
) -> WriteOptions:
    """Read the options of a create, update or patch.

    Args:
        kind: `CreateOptions`, `UpdateOptions` or `PatchOptions`, for the refusals.
        query: the query parameters.
        dry_runs: every value of `dryRun`.
        agent: the User-Agent header; its product names the manager if nothing else does.
        apply: whether this is a server-side apply, which needs a manager.

    Raises:
        StatusError: 422 when a value is not allowed.
    """
    if not query and not apply:
        # As most controllers ask: nothing was given, so nothing can be wrong.
        return WriteOptions(False, _product(agent), field_validation="Warn", force=False)
    validation = query.get("fieldValidation", "")
    manager = query.get("fieldManager", "")
    force = flag(query, "force")
    problems: list[FieldError] = []
    if kind == "PatchOptions" and force is not None and not apply:
        problems.append(forbidden("force", "may not be specified for non-apply patch"))
    if apply and not manager:
        problems.append(build_required_error("fieldManager", "is required for apply patch"))
    problems += _manager(manager)
    problems += dry_run_problems(dry_runs)
    if validation not in _FIELD_VALIDATION:
        problems.append(not_supported("fieldValidation", validation, _FIELD_VALIDATION))
    if problems:
        raise invalid_object(kind, META_GROUP, name="", problems=problems)
    field_manager = manager or _product(agent)
    return WriteOptions(
        bool(dry_runs), field_manager, field_validation=validation or "Warn", force=bool(force)
    )


def _product(agent: str) -> str:
    """Return the default field manager, from the User-Agent."""
    return agent.partition("/")[0][:128]


def dry_run_problems(dry_runs: Sequence[str]) -> list[FieldError]:
    """Check `dryRun`, which has one value."""
    if all(dry_run == "All" for dry_run in dry_runs):
        return []
    return [not_supported("dryRun", list(dry_runs), ("All",))]


def _manager(manager: str) -> list[FieldError]:
    return [as_error(cause) for cause in check_manager(manager)]


def list_options(query: Mapping[str, str], rules: Rules, *, watch: bool) -> ListOptions:
    """Read the options of a list or watch.

    Args:
        query: the query parameters.
        rules: of the kind, which know by which fields it can be selected.

    Raises:
        StatusError: 400 or 422 when a value makes no sense, or several do not go together; what
            stands for a resourceVersion is validated where it is used.
    """
    timeout, limit = number(query, "timeoutSeconds"), number(query, "limit")
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    initial_events = flag(query, "sendInitialEvents")
    if watch and initial_events is None and not match and version in {"", "0"}:
        # Without a resourceVersion a watch begins with the present objects; a bookmark marks their
        # end for clients that ask for bookmarks.
        initial_events, match = True, "NotOlderThan"
    options = ListOptions(
        labels=parse_labels(query.get("labelSelector", "")),
        fields=parse_fields(query.get("fieldSelector", "")),
        limit=max(0, limit),
        token=query.get("continue", ""),
        version=version,
        match=match,
        watch=watch,
        bookmarks=bool(flag(query, "allowWatchBookmarks")),
        initial_events=initial_events,
        timeout=timeout,
    )
    problems = _watch_problems(options) if watch else _list_problems(options)
    if problems:
        raise invalid_object("ListOptions", META_GROUP, name="", problems=problems)
    for term in options.fields.terms:
        if not rules.selectable(term.field):
            raise bad_request(rules.unselectable(term.field))
    return options


def _list_problems(options: ListOptions) -> list[FieldError]:
    """Check what does not go together in a list."""
    problems: list[FieldError] = []
    name, match = "resourceVersionMatch", options.match
    if match:
        if not options.version:
            detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            problems.append(forbidden(name, detail))
        if options.token:
            detail = "resourceVersionMatch is forbidden when continue is provided"
            problems.append(forbidden(name, detail))
        if match not in {"Exact", "NotOlderThan"}:
            problems.append(not_supported(name, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and options.version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            problems.append(forbidden(name, detail))
    if options.initial_events is not None:
        detail = "sendInitialEvents is forbidden for list"
        problems.append(forbidden("sendInitialEvents", detail))
    return problems


def _watch_problems(options: ListOptions) -> list[FieldError]:
    """Check what does not go together in a watch."""
    problems: list[FieldError] = []
    name, match = "resourceVersionMatch", options.match
    if options.initial_events is not None and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        problems.append(forbidden(name, detail))
    if match:
        if options.initial_events is None:
            detail = (
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            problems.append(forbidden(name, detail))
        if match != "NotOlderThan":
            problems.append(not_supported(name, match, ("NotOlderThan",)))
        if options.token:
            detail = "resourceVersionMatch is forbidden when continue is provided"
            problems.append(forbidden(name, detail))
    return problems


def flag(query: Mapping[str, str], name: str) -> bool | None:
    """Read a boolean; None when it is not given. Only `0` and `false` mean no, as in Go's code."""
    return query[name].lower() not in {"0", "false"} if name in query else None


def number(query: Mapping[str, str], name: str) -> int:
    """Read an integer; 0 when it is not given."""
    value = query.get(name)
    if value is None:
        return 0
    fault = number_fault(value, function="ParseInt")
    if fault:
        raise bad_request(fault)
    return int(value)
