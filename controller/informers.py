"""The informers of one manager: one for each kind, and what requests tell them besides."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from controller.clock import Clock
from controller.indexes import IndexFunction
from controller.informer import Informer
from controller.informermetrics import InformerMetrics
from controller.meta import Object, Version
from controller.resource import Resource
from controller.transport import Transport

T = TypeVar("T", bound=Object)


class Informers:
    """Makes the informer of a kind when it is first asked for, and finds it again.

    Args:
        transport: the API server.
        clock: for pauses and deadlines.
        streams: whether first lists may be streamed.
        metrics: gives the series of an informer, by the kind's full name.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        streams: bool,
        metrics: Callable[[str], InformerMetrics],
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._streams = streams
        self._metrics = metrics
        self._known: dict[str, tuple[Informer[Any], object]] = {}

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter([informer for informer, _ in self._known.values()])

    def of(
        self,
        resource: Resource[T],
        namespace: str,
        indexes: Mapping[str, IndexFunction[T]] | None,
    ) -> Informer[T]:
        """Return the informer of a kind.

        Raises:
            ValueError: it was asked for before with another namespace or other indexes.
        """
        asked = (namespace, dict(indexes or {}))
        known = self._known.get(resource.full_name)
        if known is None:
            made = self._made(resource, namespace, indexes)
            self._known[resource.full_name] = (made, asked)
            return made
        if known[1] != asked:
            raise ValueError(
                f"the informer of {resource.full_name} exists with another namespace or other"
                " indexes: ask for it once and share it"
            )
        return known[0]

    def _made(
        self,
        resource: Resource[T],
        namespace: str,
        indexes: Mapping[str, IndexFunction[T]] | None,
    ) -> Informer[T]:
        observer = self._metrics(resource.full_name)
        made = Informer(
            resource,
            self._transport,
            self._clock,
            namespace=namespace,
            indexes=indexes,
            streams=self._streams,
            observer=observer,
        )
        observer.watch(
            lambda: made.silent_seconds, lambda: made.lag_seconds, lambda: len(made.cache)
        )
        return made

    def answered(self, resource: Resource[Any], obj: Object) -> None:
        """Show an object that a request was answered with, if its kind is followed."""
        known = self._known.get(resource.full_name)
        if known is not None:
            known[0].own(obj)

    def gone(self, resource: Resource[Any], at: Version) -> None:
        """Show no more an object that a request has deleted, if its kind is followed."""
        known = self._known.get(resource.full_name)
        if known is not None:
            known[0].gone(at)
