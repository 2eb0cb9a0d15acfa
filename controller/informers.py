"""The informers of one manager, created at their first request."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar, cast

from controller.callbacks import safe_repr
from controller.clock import Clock
from controller.indexes import Indexes, IndexFunction
from controller.informer import Informer
from controller.meta import Object, Version
from controller.metrics import InformerMetrics
from controller.namespaces import NamespaceSet, NamespacesInformer
from controller.resource import Resource, Scope
from controller.transport import Transport

T = TypeVar("T", bound=Object)

AnyInformer = Informer[Any] | NamespacesInformer[Any]
Place = tuple[Scope, NamespaceSet | None]
"""The part of a kind that an informer watches: a scope, and a set of namespaces or None."""


class Informers:
    """The informers of one manager, created at their first request.

    There is one for each kind, scope and set of namespaces. All informers of a kind decode its
    objects to one type, so that the response to a write fits the cache of each.

    Args:
        transport: the API server.
        clock: for delays and deadlines.
        streams: whether lists may be read as initial events of watches.
        metrics: returns the metrics of the informers of a kind, given its full name.
        begins_newest: whether all informers read the newest state first. Otherwise only those of a
            set of namespaces do, and others may begin with a state of the server's watch cache.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        streams: bool,
        metrics: Callable[[str], InformerMetrics],
        begins_newest: bool = False,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._streams = streams
        self._begins_newest = begins_newest
        self._create_metrics = metrics
        self._metrics: dict[str, InformerMetrics] = {}
        # By the full name of the kind, then by place.
        self._informers: dict[str, dict[Place, AnyInformer]] = {}
        # The indexes that each informer was created with; also the list of all informers.
        self._indexes: dict[AnyInformer, Mapping[str, IndexFunction[Any]]] = {}

    def __iter__(self) -> Iterator[AnyInformer]:
        """Iterate over a copy of the informers of all kinds: others may be added meanwhile."""
        return iter(list(self._indexes))

    def get_or_create(
        self, resource: Resource[T], scope: Scope, indexes: Mapping[str, IndexFunction[T]] | None
    ) -> Informer[T]:
        """Return the informer of a kind and scope.

        Raises:
            ValueError: the kind is watched as another type, or this informer exists with other
                indexes.
        """
        create = partial(self._create, resource, scope, indexes)
        return cast(
            "Informer[T]",
            self._find_or_add(resource, (scope, None), indexes=indexes, create=create),
        )

    def get_or_create_in(
        self,
        resource: Resource[T],
        namespaces: NamespaceSet,
        scope: Scope,
        indexes: Mapping[str, IndexFunction[T]] | None,
    ) -> NamespacesInformer[T]:
        """Return the informer of a kind in the namespaces of a set.

        Args:
            resource: the kind.
            scope: the selectors; without a namespace.
            indexes: by index name, a pure function from an object to its values.

        Raises:
            TypeError: `namespaces` is no NamespaceSet, or an index function is async.
            ValueError: as for `get_or_create`; or the kind is cluster-scoped, or the scope has a
                namespace.
        """
        _check_namespaces(resource, namespaces, scope)
        Indexes(indexes or {})  # checks the functions now, and not with the first namespace

        def create() -> NamespacesInformer[T]:
            """Create the informer of the set, which creates an informer for each namespace."""
            # Each begins with the newest state. A state of the server's watch cache could be from
            # before the namespace left the set, and lack objects that were written since.
            return NamespacesInformer(
                resource,
                namespaces,
                lambda name: self._create(
                    resource,
                    Scope(name, scope.labels, scope.fields),
                    indexes,
                    begins_newest=True,
                ),
                scope=scope,
                indexes=indexes or (),  # for the names only
            )

        informer = self._find_or_add(resource, (scope, namespaces), indexes=indexes, create=create)
        return cast("NamespacesInformer[T]", informer)

    def _find_or_add(
        self,
        resource: Resource[T],
        place: Place,
        indexes: Mapping[str, IndexFunction[T]] | None,
        create: Callable[[], AnyInformer],
    ) -> AnyInformer:
        """Return the informer of a kind at a place; create it if there is none.

        Args:
            resource: the kind.
            place: the scope, and the set of namespaces or None.
            indexes: as requested; an informer that exists must have the same.
            create: returns a new informer.

        Raises:
            ValueError: the kind is watched as another type, or the informer has other indexes.
        """
        name = resource.full_name
        informers = self._informers.setdefault(name, {})
        if conflicting := next(
            (informer for informer in informers.values() if informer.resource != resource), None
        ):
            raise ValueError(
                f"{name} is watched as {_describe_resource(conflicting.resource)} already, so it"
                f" cannot be watched as {_describe_resource(resource)}: use one Resource for it"
                " everywhere"
            )
        requested_indexes = dict(indexes or {})
        informer = informers.get(place)
        if informer is None:
            informer = informers[place] = create()
            self._indexes[informer] = requested_indexes
            self._register_gauges(name, informers)
        elif self._indexes[informer] != requested_indexes:
            raise ValueError(
                f"the informer of {name} exists with other indexes: ask for it once and share it"
            )
        return informer

    def _create(
        self,
        resource: Resource[T],
        scope: Scope,
        indexes: Mapping[str, IndexFunction[T]] | None,
        *,
        begins_newest: bool = False,
    ) -> Informer[T]:
        """Create the informer of a kind in a scope."""
        return Informer(
            resource,
            self._transport,
            self._clock,
            namespace=scope.namespace,
            labels=scope.labels,
            fields=scope.fields,
            indexes=indexes,
            streams=self._streams,
            begins_newest=begins_newest or self._begins_newest,
            observer=self._get_or_create_metrics(resource.full_name),
        )

    def _register_gauges(self, name: str, informers: Mapping[Place, AnyInformer]) -> None:
        """Let the gauges of a kind read its informers: the gauges show their maximum or their sum.

        Args:
            name: the full name of the kind.
            informers: all informers of the kind, also those that are added later.
        """
        metrics = self._get_or_create_metrics(name)
        metrics.set_gauge_functions(
            lambda: max(informer.silent_seconds for informer in informers.values()),
            lambda: max(informer.lag_seconds for informer in informers.values()),
            lambda: sum(len(informer.cache) for informer in informers.values()),
        )
        metrics.set_gap_gauge_functions(
            lambda: sum(len(informer.cache.unreadable) for informer in informers.values()),
            lambda: sum(informer.unlisted_count for informer in informers.values()),
        )

    def _get_or_create_metrics(self, name: str) -> InformerMetrics:
        """Return the metrics that the informers of a kind share; create them at the first call."""
        if name not in self._metrics:
            self._metrics[name] = self._create_metrics(name)
        return self._metrics[name]

    def retry_now(self, full_name: str) -> None:
        """Retry the failed lists and watches of a kind without further delay.

        Args:
            full_name: plural and group of the kind.
        """
        for informer in self._informers.get(full_name, {}).values():
            informer.retry_now()

    def apply_own_write(self, resource: Resource[Any], obj: Object) -> None:
        """Show the response to a request of ours in the caches of its kind and type."""
        for informer in self._informers.get(resource.full_name, {}).values():
            if informer.resource == resource:
                informer.apply_own_write(obj)

    def mark_deleted(self, resource: Resource[Any], version: Version) -> None:
        """Hide an object that a request of ours deleted, in all caches of its kind."""
        for informer in self._informers.get(resource.full_name, {}).values():
            informer.mark_deleted(version)


def _describe_resource(resource: Resource[Any]) -> str:
    """Return a resource's type and API version, for messages."""
    return f"{resource.type.__name__} of {resource.api_version}"


def _check_namespaces(resource: Resource[Any], namespaces: object, scope: Scope) -> None:
    """Raise an error for a kind that cannot be watched in the given set of namespaces.

    Raises:
        TypeError: `namespaces` is no NamespaceSet.
        ValueError: the kind is cluster-scoped, or the scope names a namespace, too.
    """
    name = resource.full_name
    if not isinstance(namespaces, NamespaceSet):
        raise TypeError(
            f"Manager.get_informer of {name}: namespaces must be a NamespaceSet, not"
            f" {safe_repr(namespaces)}: write NamespaceSet([...])"
        )
    if not resource.namespaced:
        raise ValueError(f"{name} are cluster-scoped: ask for their informer without namespaces=")
    if scope.namespace:
        raise ValueError(
            f"Manager.get_informer of {name} has namespace={scope.namespace!r} and namespaces=:"
            " pass one of them"
        )
