"""Query parameters: the CreateOptions, PatchOptions, ListOptions and so on of meta/v1.

Each request's options are parsed once, before its verb runs. Refusals are those of the real
server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from controller.managedfields import check_manager
from envtest.schema.errors import (
    FieldError,
    build_forbidden_error,
    build_not_supported_error,
    build_required_error,
)
from envtest.server.failures import build_bad_request, build_invalid_object, to_field_error
from envtest.server.rules import Rules
from envtest.server.selectors import (
    FieldSelector,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)
from envtest.wire.texts import find_number_fault

_FIELD_VALIDATION = ("", "Ignore", "Strict", "Warn")
META_GROUP = "meta.k8s.io"


class WriteOptions(msgspec.Struct, frozen=True):
    """The common options of CreateOptions, UpdateOptions and PatchOptions."""

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
    # The resourceVersion of the query: empty, `0` or a revision. It is not validated yet.
    version: str
    # The resourceVersionMatch: empty, `Exact` or `NotOlderThan`.
    match: str
    watch: bool
    bookmarks: bool
    initial_events: bool | None
    # Seconds; 0 lets the server choose.
    timeout: int


def read_write_options(
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
        # Most requests of controllers have no options, so there is nothing to validate.
        return WriteOptions(
            False, _get_default_manager(agent), field_validation="Warn", force=False
        )
    validation = query.get("fieldValidation", "")
    manager = query.get("fieldManager", "")
    force = read_flag(query, "force")
    problems: list[FieldError] = []
    if kind == "PatchOptions" and force is not None and not apply:
        problems.append(build_forbidden_error("force", "may not be specified for non-apply patch"))
    if apply and not manager:
        problems.append(build_required_error("fieldManager", "is required for apply patch"))
    problems += [to_field_error(cause) for cause in check_manager(manager)]
    problems += validate_dry_run(dry_runs)
    if validation not in _FIELD_VALIDATION:
        problems.append(
            build_not_supported_error("fieldValidation", validation, _FIELD_VALIDATION)
        )
    if problems:
        raise build_invalid_object(kind, META_GROUP, name="", problems=problems)
    field_manager = manager or _get_default_manager(agent)
    return WriteOptions(
        bool(dry_runs), field_manager, field_validation=validation or "Warn", force=bool(force)
    )


def _get_default_manager(agent: str) -> str:
    """Return the default field manager: the product of the User-Agent, 128 characters at most."""
    return agent.partition("/")[0][:128]


def validate_dry_run(dry_runs: Sequence[str]) -> list[FieldError]:
    """Return the problems of `dryRun`, whose only allowed value is All."""
    if all(dry_run == "All" for dry_run in dry_runs):
        return []
    return [build_not_supported_error("dryRun", list(dry_runs), ("All",))]


def read_list_options(query: Mapping[str, str], rules: Rules, *, watch: bool) -> ListOptions:
    """Read the options of a list or watch.

    Args:
        query: the query parameters.
        rules: the rules of the kind, which know by which fields it can be selected.
        watch: whether the request is a watch, which allows other combinations than a list.

    Raises:
        StatusError: 400 or 422 for invalid values and for options that exclude each other. The
            resourceVersion is not validated here, because lists and watches refuse it differently.
    """
    timeout, limit = read_number(query, "timeoutSeconds"), read_number(query, "limit")
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    initial_events = read_flag(query, "sendInitialEvents")
    if watch and initial_events is None and not match and version in {"", "0"}:
        # Without a resourceVersion a watch begins with the present objects; a bookmark marks their
        # end for clients that ask for bookmarks.
        initial_events, match = True, "NotOlderThan"
    options = ListOptions(
        labels=parse_label_selector(query.get("labelSelector", "")),
        fields=parse_field_selector(query.get("fieldSelector", "")),
        # As in kube-apiserver, a negative limit means no limit.
        limit=max(0, limit),
        token=query.get("continue", ""),
        version=version,
        match=match,
        watch=watch,
        bookmarks=bool(read_flag(query, "allowWatchBookmarks")),
        initial_events=initial_events,
        timeout=timeout,
    )
    problems = _validate_watch(options) if watch else _validate_list(options)
    if problems:
        raise build_invalid_object("ListOptions", META_GROUP, name="", problems=problems)
    for term in options.fields.terms:
        if not rules.is_selectable(term.field):
            raise build_bad_request(rules.describe_unselectable(term.field))
    return options


def _validate_list(options: ListOptions) -> list[FieldError]:
    """Return the problems of the options of a list that exclude or require each other."""
    problems: list[FieldError] = []
    name, match = "resourceVersionMatch", options.match
    if match:
        if not options.version:
            detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            problems.append(build_forbidden_error(name, detail))
        if options.token:
            detail = "resourceVersionMatch is forbidden when continue is provided"
            problems.append(build_forbidden_error(name, detail))
        if match not in {"Exact", "NotOlderThan"}:
            problems.append(build_not_supported_error(name, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and options.version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            problems.append(build_forbidden_error(name, detail))
    if options.initial_events is not None:
        detail = "sendInitialEvents is forbidden for list"
        problems.append(build_forbidden_error("sendInitialEvents", detail))
    return problems


def _validate_watch(options: ListOptions) -> list[FieldError]:
    """Return the problems of the options of a watch that exclude or require each other."""
    problems: list[FieldError] = []
    name, match = "resourceVersionMatch", options.match
    if options.initial_events is not None and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        problems.append(build_forbidden_error(name, detail))
    if match:
        if options.initial_events is None:
            detail = (
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            problems.append(build_forbidden_error(name, detail))
        if match != "NotOlderThan":
            problems.append(build_not_supported_error(name, match, ("NotOlderThan",)))
        if options.token:
            detail = "resourceVersionMatch is forbidden when continue is provided"
            problems.append(build_forbidden_error(name, detail))
    return problems


def read_flag(query: Mapping[str, str], name: str) -> bool | None:
    """Return a boolean parameter; None if it is absent.

    Every value but `0` and `false` means true, as in apimachinery's Convert_Slice_string_To_bool.
    """
    return query[name].lower() not in {"0", "false"} if name in query else None


def read_number(query: Mapping[str, str], name: str) -> int:
    """Return an integer parameter; 0 if it is absent.

    Raises:
        StatusError: 400 if it is not an integer.
    """
    value = query.get(name)
    if value is None:
        return 0
    fault = find_number_fault(value, function="ParseInt")
    if fault:
        raise build_bad_request(fault)
    return int(value)
