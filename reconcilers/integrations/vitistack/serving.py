"""The integration as a service: it runs while the API server serves the kinds of vitistack."""

from collections.abc import Iterable
from functools import partial

from controller.cache import Change
from controller.informer import Informer
from controller.loggers import get_logger
from controller.meta import Key
from controller.triggers import Trigger, Watch, generation_changed, to_self
from reconcilers.api import names
from reconcilers.integrations.core.discovery import Work
from reconcilers.integrations.core.gauges import PoolGauges, wrap_with_gauges
from reconcilers.integrations.core.serving import (
    AllKindsSteps,
    IntegrationParts,
    add_integration_service,
)
from reconcilers.integrations.core.watches import watch_pools
from reconcilers.integrations.vitistack import gauges
from reconcilers.integrations.vitistack.allocations import AllocationReconciler
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    GROUP,
    KINDS,
    NETWORKS,
    NetworkConfiguration,
    NetworkNamespace,
    VitistackAllocation,
)
from reconcilers.integrations.vitistack.caches import (
    ALLOCATION_INDEXES,
    NAMESPACE_INDEX,
    VitistackCaches,
    list_namespaces_of,
)
from reconcilers.integrations.vitistack.configurations import ConfigurationReconciler
from reconcilers.integrations.vitistack.networks import Networks
from reconcilers.integrations.vitistack.reading import VitistackReader
from reconcilers.integrations.vitistack.writing import VitistackWriter
from reconcilers.promises.passes import PoolPasses

_log = get_logger(__name__)


def add_service(parts: IntegrationParts) -> None:
    """Add the service that serves vitistack's IPAllocations to the manager."""
    steps = AllKindsSteps(
        parts.manager.client,
        KINDS,
        missing="The kinds of vitistack",
        make_work=partial(_make_work, parts),
        log=_log,
    )
    add_integration_service(parts, steps, service="vitistack", groups=(GROUP,))


def _make_work(parts: IntegrationParts) -> Work:
    """Set up caches, three controllers and metrics; return the work that runs them."""
    provider, settings = parts.settings.vitistack, parts.settings.pool
    _log.info("Serving IPAllocations of vitistack", provider=provider.provider)
    extension = parts.manager.create_extension()
    networks = extension.get_informer(NETWORKS, indexes={NAMESPACE_INDEX: list_namespaces_of})
    allocations = extension.get_informer(
        ALLOCATIONS,
        indexes=ALLOCATION_INDEXES,
    )
    configurations = extension.get_informer(
        CONFIGURATIONS, indexes={NAMESPACE_INDEX: list_namespaces_of}
    )
    caches = VitistackCaches(
        networks.cache,
        allocations.cache,
        configurations=configurations.cache,
        provider=provider.provider.strip().lower(),
        unnamed=provider.unnamed,
    )
    client = extension.client.with_field_manager(names.FIELD_MANAGER)
    clock, recorder = parts.clock, parts.recorder
    writer = VitistackWriter(client, recorder, clock=clock, settings=settings)
    reader = VitistackReader(
        client,
        caches,
        clock=clock,
        patience=settings.cache_patience,
        check_interval=settings.contents_check,
    )
    kind = Networks(
        client,
        caches,
        reader=reader,
        writer=writer,
        recorder=recorder,
        clock=clock,
        settings=settings,
        spaces=parts.spaces,
    )
    extension.add_controller(
        "vitistack-networknamespace",
        PoolPasses(kind, client, clock=clock, settings=settings).reconcile,
        watches=_watch_networks(
            parts,
            caches,
            networks=networks,
            allocations=allocations,
            configurations=configurations,
        ),
        concurrency=parts.settings.concurrency,
    )
    extension.add_controller(
        "vitistack-ipallocation",
        AllocationReconciler(
            client, caches, writer=writer, recorder=recorder, clock=clock
        ).reconcile,
        watches=_watch_allocations(
            caches, networks, allocations=allocations, configurations=configurations
        ),
        concurrency=settings.width,
    )
    extension.add_controller(
        "vitistack-networkconfiguration",
        ConfigurationReconciler(client, caches, clock).reconcile,
        watches=_watch_configurations(
            caches, networks, allocations=allocations, configurations=configurations
        ),
        concurrency=settings.width,
    )

    figures = gauges.NetworkFigures(caches, reader)
    pool_gauges = PoolGauges(
        gauges.METRICS,
        "a NetworkNamespace",
        labels=gauges.LABELS,
        list_figures=figures,
        clock=clock,
    )
    return wrap_with_gauges(pool_gauges, parts.manager.metrics.registry, extension.run)


def _watch_networks(
    parts: IntegrationParts,
    caches: VitistackCaches,
    networks: Informer[NetworkNamespace],
    allocations: Informer[VitistackAllocation],
    configurations: Informer[NetworkConfiguration],
) -> list[Trigger]:
    """Return the triggers of passes over networks.

    - A network: itself, and networks that share addresses with it.
    - An IPAllocation: its network.
    - An undecodable IPAllocation or NetworkConfiguration: the networks that it may name.
    """
    gather = parts.settings.pool.gather
    return [
        *watch_pools(networks, parts.overlaps, gather),
        Watch(
            allocations,
            lambda allocation: [allocation.network],
            may_affect_network,
            delay=gather,
            unreadable=caches.list_networks_that_may_be_named,
        ),
        # A change of a machine needs no pass: passes read the addresses that machines show. But a
        # machine that cannot be decoded stops passes, so a pass is due once it can be decoded.
        Watch(configurations, lambda _: (), unreadable=caches.list_networks_that_may_be_named),
    ]


def _watch_allocations(
    caches: VitistackCaches,
    networks: Informer[NetworkNamespace],
    allocations: Informer[VitistackAllocation],
    configurations: Informer[NetworkConfiguration],
) -> list[Watch[VitistackAllocation] | Watch[NetworkNamespace] | Watch[NetworkConfiguration]]:
    """Return the watches of the controller of IPAllocations.

    - An IPAllocation: itself.
    - A network whose spec or phase changes, or that becomes undecodable: its IPAllocations.
    - A NetworkConfiguration that is created or deleted, or becomes undecodable: its IPAllocations.
    """

    def list_allocations_in_network(network: NetworkNamespace) -> Iterable[Key]:
        """Return the IPAllocations that name a network."""
        return (
            allocation.metadata.key
            for allocation in caches.list_allocations_in(network.metadata.key)
        )

    def list_allocations_of_machine(configuration: NetworkConfiguration) -> Iterable[Key]:
        """Return the IPAllocations that name a NetworkConfiguration."""
        own_allocations = caches.list_allocations_of(configuration.metadata.key)
        return (allocation.metadata.key for allocation in own_allocations)

    def list_allocations_in_unreadable(network: Key) -> Iterable[Key]:
        """Return the IPAllocations that name a network which cannot be decoded."""
        return (allocation.metadata.key for allocation in caches.list_allocations_in(network))

    def list_allocations_of_unreadable(configuration: Key) -> Iterable[Key]:
        """Return the IPAllocations that name a NetworkConfiguration which cannot be decoded."""
        return (
            allocation.metadata.key for allocation in caches.list_allocations_of(configuration)
        )

    return [
        Watch(allocations, to_self, unreadable=lambda allocation: [allocation]),
        Watch(
            networks,
            list_allocations_in_network,
            has_changed_spec_or_phase,
            unreadable=list_allocations_in_unreadable,
        ),
        Watch(
            configurations,
            list_allocations_of_machine,
            has_changed_lifecycle,
            unreadable=list_allocations_of_unreadable,
        ),
    ]


def _watch_configurations(
    caches: VitistackCaches,
    networks: Informer[NetworkNamespace],
    allocations: Informer[VitistackAllocation],
    configurations: Informer[NetworkConfiguration],
) -> list[Watch[NetworkConfiguration] | Watch[NetworkNamespace] | Watch[VitistackAllocation]]:
    """Return the watches of the controller of NetworkConfigurations.

    - A NetworkConfiguration: itself.
    - A network whose spec or phase changes: the NetworkConfigurations that name it or no network.
    - An IPAllocation: the NetworkConfiguration that it names.
    - An undecodable network or IPAllocation: all NetworkConfigurations of its namespace.
    """

    def list_configurations_of_network(network: NetworkNamespace) -> Iterable[Key]:
        """Yield the NetworkConfigurations of a namespace that name its network, or no network."""
        name, namespace = network.metadata.name, network.metadata.namespace
        for configuration in caches.configurations.list_by_index(NAMESPACE_INDEX, namespace):
            if configuration.spec.networkNamespaceName in {"", name}:
                yield configuration.metadata.key

    def list_configurations_near(unreadable: Key) -> Iterable[Key]:
        """Return the NetworkConfigurations of a namespace: an undecodable object may name any."""
        configurations_there = caches.configurations.list_by_index(
            NAMESPACE_INDEX, unreadable.namespace
        )
        return (configuration.metadata.key for configuration in configurations_there)

    return [
        Watch(configurations, to_self, unreadable=lambda configuration: [configuration]),
        Watch(
            networks,
            list_configurations_of_network,
            has_changed_spec_or_phase,
            unreadable=list_configurations_near,
        ),
        Watch(
            allocations,
            lambda allocation: [allocation.configuration],
            unreadable=list_configurations_near,
        ),
    ]


def has_changed_spec_or_phase(change: Change[NetworkNamespace]) -> bool:
    """Return whether a network was created or deleted, or its spec or phase has changed.

    Other changes, such as those of a network's counts, lead to no pass over its requests.
    """
    old, new = change.old, change.new
    if old is None or new is None or generation_changed(change):
        return True
    return old.status.provisioningPhase != new.status.provisioningPhase


def has_changed_lifecycle(change: Change[NetworkConfiguration]) -> bool:
    """Return whether a machine was created, deleted or recreated, or its deletion has begun."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    old_meta, new_meta = old.metadata, new.metadata
    return (old_meta.uid, old_meta.is_terminating) != (new_meta.uid, new_meta.is_terminating)


def may_affect_network(change: Change[VitistackAllocation]) -> bool:
    """Return whether an IPAllocation was created or deleted, or got other relevant fields."""
    old, new = change.old, change.new
    return old is None or new is None or _list_relevant_fields(old) != _list_relevant_fields(new)


def _list_relevant_fields(allocation: VitistackAllocation) -> tuple[object, ...]:
    """Return the fields of an IPAllocation that a pass over its network reads."""
    meta, status = allocation.metadata, allocation.status
    # A promise names the version of a waiting IPAllocation. A new version voids the promise, so
    # that a pass has to make another one.
    version = meta.resourceVersion if allocation.waits else ""
    return meta.uid, version, meta.is_terminating, allocation.spec, status.phase, status.address
