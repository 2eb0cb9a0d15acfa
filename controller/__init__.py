"""A framework for level-based Kubernetes controllers on raw watches.

To follow one event, read in this order: `reflector` (from the bytes of lists and watches to the
cache), `cache`, `informer`, `triggers` (which keys a change enqueues), `workqueue`, `runner`.
`manager` starts and stops all of it. README.md in this folder has a line on every module.

A name is imported when it is first used (PEP 562), so a program that needs only keys and
conditions loads neither an HTTP client nor the metrics.
"""

from typing import TYPE_CHECKING

from controller.lazyexports import export_lazily

if TYPE_CHECKING:
    from controller.cache import Cache, Change
    from controller.children import Ensured, Owner, ensure
    from controller.client import Client
    from controller.clock import Clock, SystemClock
    from controller.clusters import ClusterKind, Clusters, ClusterSettings
    from controller.codec import Page
    from controller.conditions import Condition, remove_condition, set_condition
    from controller.config import connect
    from controller.errors import (
        AlreadyExists,
        ApiError,
        BadRequest,
        ConfigurationError,
        Conflict,
        ControllerError,
        FieldManagerConflict,
        Forbidden,
        Invalid,
        MalformedAnswer,
        NoAnswer,
        NotFound,
        OwnedByAnother,
        ServerFailure,
        TerminalError,
        TooManyRequests,
        Unauthorized,
    )
    from controller.events import Recorder
    from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
    from controller.health import Check, Failing
    from controller.httptransport import HttpTransport
    from controller.informer import Informer
    from controller.leases import LeaderLost
    from controller.logs import configure_logs
    from controller.manager import Manager
    from controller.meta import Key, MetadataOnly, Object, ObjectMeta, Untyped, Version
    from controller.namespaces import NamespaceSet, NamespacesInformer
    from controller.options import ManagerOptions, SelfSigned
    from controller.outcome import SETTLED, Again, Blocked, Outcome
    from controller.owners import with_owner
    from controller.queueorder import Retries
    from controller.renewable import Connection
    from controller.resource import Resource
    from controller.selectors import write_selector
    from controller.shards import compute_shard
    from controller.signals import run_until_signal
    from controller.tenantconfig import create_tenant_transport, parse_kubeconfig
    from controller.transport import Transport
    from controller.triggers import (
        ClusterWatch,
        Watch,
        generation_changed,
        spec_at_once,
        to_owner,
        to_self,
    )

__all__ = [
    "SETTLED",
    "Again",
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Blocked",
    "Cache",
    "Change",
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
    "Connection",
    "ControllerError",
    "Ensured",
    "Failing",
    "FieldManagerConflict",
    "Forbidden",
    "HttpTransport",
    "Informer",
    "Invalid",
    "Key",
    "LeaderLost",
    "MalformedAnswer",
    "Manager",
    "ManagerOptions",
    "MetadataOnly",
    "NamespaceSet",
    "NamespacesInformer",
    "NoAnswer",
    "NotFound",
    "Object",
    "ObjectMeta",
    "Outcome",
    "OwnedByAnother",
    "Owner",
    "Page",
    "Recorder",
    "Resource",
    "Retries",
    "SelfSigned",
    "ServerFailure",
    "SystemClock",
    "TerminalError",
    "TooManyRequests",
    "Transport",
    "Unauthorized",
    "Untyped",
    "Version",
    "Watch",
    "add_finalizer",
    "compute_shard",
    "configure_logs",
    "connect",
    "create_tenant_transport",
    "ensure",
    "generation_changed",
    "has_finalizer",
    "parse_kubeconfig",
    "remove_condition",
    "remove_finalizer",
    "run_until_signal",
    "set_condition",
    "spec_at_once",
    "to_owner",
    "to_self",
    "with_owner",
    "write_selector",
]

# The imports above for run time; tests/controller/test_surface.py compares the two.
_MODULES = {
    "cache": "Cache Change",
    "children": "Ensured Owner ensure",
    "client": "Client",
    "clock": "Clock SystemClock",
    "clusters": "ClusterKind ClusterSettings Clusters",
    "codec": "Page",
    "conditions": "Condition remove_condition set_condition",
    "config": "connect",
    "errors": (
        "AlreadyExists ApiError BadRequest ConfigurationError Conflict ControllerError"
        " FieldManagerConflict Forbidden Invalid MalformedAnswer NoAnswer NotFound OwnedByAnother"
        " ServerFailure TerminalError TooManyRequests Unauthorized"
    ),
    "events": "Recorder",
    "finalizers": "add_finalizer has_finalizer remove_finalizer",
    "health": "Check Failing",
    "informer": "Informer",
    "leases": "LeaderLost",
    "logs": "configure_logs",
    "manager": "Manager",
    "meta": "Key MetadataOnly Object ObjectMeta Untyped Version",
    "namespaces": "NamespaceSet NamespacesInformer",
    "options": "ManagerOptions SelfSigned",
    "outcome": "SETTLED Again Blocked Outcome",
    "owners": "with_owner",
    "queueorder": "Retries",
    "renewable": "Connection",
    "resource": "Resource",
    "selectors": "write_selector",
    "shards": "compute_shard",
    "signals": "run_until_signal",
    "tenantconfig": "parse_kubeconfig create_tenant_transport",
    "httptransport": "HttpTransport",
    "transport": "Transport",
    "triggers": "ClusterWatch Watch generation_changed spec_at_once to_owner to_self",
}

if not TYPE_CHECKING:  # a type checker that saw it would take any name for one of ours
    __getattr__, __dir__ = export_lazily(__name__, _MODULES)
