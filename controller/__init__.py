"""When to look? A framework for level-based controllers on raw watches.

Follow one event in this order: `reflector` (from the bytes of lists and watches), `cache`,
`informer`, `triggers` (predicates and mappings), `workqueue`, `runner`. `manager` starts and
stops all of it. The README beside this file has a line on every module.

A name is loaded when it is first asked for (PEP 562), so who needs keys and conditions alone pays
neither for an HTTP client nor for metrics.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.backoff import KeyBackoff
    from controller.cache import Cache, Change
    from controller.channels import Channel
    from controller.client import Client
    from controller.clock import Clock, SystemClock
    from controller.clusterkinds import ClusterKind
    from controller.clusters import Clusters, ClusterSettings
    from controller.codec import Page
    from controller.conditions import Condition, remove_condition, set_condition
    from controller.config import connect
    from controller.endpoint import Endpoint
    from controller.errors import (
        AlreadyExists,
        ApiError,
        BadRequest,
        ConfigurationError,
        Conflict,
        ControllerError,
        Expired,
        Forbidden,
        Invalid,
        MalformedAnswer,
        NoAnswer,
        NotFound,
        ServerFailure,
        TerminalError,
        TooManyRequests,
        Unauthorized,
    )
    from controller.events import Recorder
    from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
    from controller.health import Check, Failing
    from controller.informer import Informer, Registration
    from controller.leasekind import LeaseSettings
    from controller.leases import Elector, LeaderLost
    from controller.logs import configure as configure_logs
    from controller.manager import Manager
    from controller.mapping import by, to_owner, to_referrers, to_self
    from controller.meta import Key, Object, ObjectMeta, OwnerReference, Version
    from controller.metrics import Metrics
    from controller.mutations import ObjectMutated
    from controller.options import ManagerOptions, SelfSigned
    from controller.outcome import SETTLED, Again, Blocked, Outcome, Settled
    from controller.owners import controller_of, is_owned_by, owned
    from controller.predicates import (
        Predicate,
        all_of,
        annotations_changed,
        any_of,
        generation_changed,
        labels_changed,
        not_,
        revision_changed,
    )
    from controller.queueview import QueueStatistics
    from controller.renewable import RenewableTransport, Way
    from controller.resource import Resource
    from controller.runner import Controller, Reconcile
    from controller.signals import run_until_signal
    from controller.sources import CacheLagging, SourceError
    from controller.statuspatch import StatusDraft, merge_patch
    from controller.tenantconfig import TenantCredentials, parse_kubeconfig, tenant_transport
    from controller.transport import HttpTransport, Transport
    from controller.triggers import ClusterWatch, Trigger, Watch
    from controller.workqueue import LOW_PRIORITY, QueueShutDown, WorkQueue

__all__ = [
    "LOW_PRIORITY",
    "SETTLED",
    "Again",
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Blocked",
    "Cache",
    "CacheLagging",
    "Change",
    "Channel",
    "Check",
    "Client",
    "Clock",
    "ClusterKind",
    "ClusterSettings",
    "ClusterWatch",
    "Clusters",
    "Condition",
    "ConfigurationError",
    "Conflict",
    "Controller",
    "ControllerError",
    "Elector",
    "Endpoint",
    "Expired",
    "Failing",
    "Forbidden",
    "HttpTransport",
    "Informer",
    "Invalid",
    "Key",
    "KeyBackoff",
    "LeaderLost",
    "LeaseSettings",
    "MalformedAnswer",
    "Manager",
    "ManagerOptions",
    "Metrics",
    "NoAnswer",
    "NotFound",
    "Object",
    "ObjectMeta",
    "ObjectMutated",
    "Outcome",
    "OwnerReference",
    "Page",
    "Predicate",
    "QueueShutDown",
    "QueueStatistics",
    "Reconcile",
    "Recorder",
    "Registration",
    "RenewableTransport",
    "Resource",
    "SelfSigned",
    "ServerFailure",
    "Settled",
    "SourceError",
    "StatusDraft",
    "SystemClock",
    "TenantCredentials",
    "TerminalError",
    "TooManyRequests",
    "Transport",
    "Trigger",
    "Unauthorized",
    "Version",
    "Watch",
    "Way",
    "WorkQueue",
    "add_finalizer",
    "all_of",
    "annotations_changed",
    "any_of",
    "by",
    "configure_logs",
    "connect",
    "controller_of",
    "generation_changed",
    "has_finalizer",
    "is_owned_by",
    "labels_changed",
    "merge_patch",
    "not_",
    "owned",
    "parse_kubeconfig",
    "remove_condition",
    "remove_finalizer",
    "revision_changed",
    "run_until_signal",
    "set_condition",
    "tenant_transport",
    "to_owner",
    "to_referrers",
    "to_self",
]

# The imports above once more, for the interpreter: a test holds the two to each other.
_HOMES = {
    "backoff": "KeyBackoff",
    "cache": "Cache Change",
    "channels": "Channel",
    "client": "Client",
    "clock": "Clock SystemClock",
    "clusterkinds": "ClusterKind",
    "clusters": "Clusters ClusterSettings",
    "codec": "Page",
    "conditions": "Condition remove_condition set_condition",
    "config": "connect",
    "endpoint": "Endpoint",
    "errors": (
        "AlreadyExists ApiError BadRequest ConfigurationError Conflict ControllerError Expired"
        " Forbidden Invalid MalformedAnswer NoAnswer NotFound ServerFailure TerminalError"
        " TooManyRequests Unauthorized"
    ),
    "events": "Recorder",
    "finalizers": "add_finalizer has_finalizer remove_finalizer",
    "health": "Check Failing",
    "informer": "Informer Registration",
    "leasekind": "LeaseSettings",
    "leases": "Elector LeaderLost",
    "logs": "configure_logs",
    "manager": "Manager",
    "mapping": "by to_owner to_referrers to_self",
    "meta": "Key Object ObjectMeta OwnerReference Version",
    "metrics": "Metrics",
    "mutations": "ObjectMutated",
    "options": "ManagerOptions SelfSigned",
    "outcome": "SETTLED Again Blocked Outcome Settled",
    "owners": "controller_of is_owned_by owned",
    "predicates": (
        "Predicate all_of annotations_changed any_of generation_changed labels_changed not_"
        " revision_changed"
    ),
    "queueview": "QueueStatistics",
    "renewable": "RenewableTransport Way",
    "resource": "Resource",
    "runner": "Controller Reconcile",
    "signals": "run_until_signal",
    "sources": "CacheLagging SourceError",
    "statuspatch": "StatusDraft merge_patch",
    "tenantconfig": "TenantCredentials parse_kubeconfig tenant_transport",
    "transport": "HttpTransport Transport",
    "triggers": "ClusterWatch Trigger Watch",
    "workqueue": "LOW_PRIORITY QueueShutDown WorkQueue",
}
_RENAMED = {"configure_logs": "configure"}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), _RENAMED.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
