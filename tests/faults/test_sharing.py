"""Handlers and reconcilers share one cache, its objects, and its order of events."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import anyio
import pytest

from controller import (
    SETTLED,
    Change,
    Key,
    Manager,
    ManagerOptions,
    ObjectMeta,
    Outcome,
    Resource,
    Version,
    Watch,
    to_self,
)
from controller.mutations import ObjectMutated
from tests.faults.proxied import GAUGES, Gauge, open_transport, run_informer, run_proxied_plane
from tests.polling import SECONDS

MANY = 50
"""The number of gauges."""
ROUNDS = 6
"""The number of updates of each gauge."""


@dataclass(frozen=True, slots=True)
class MutableConfigMap:
    """A ConfigMap whose data, a dict, can be changed in place."""

    metadata: ObjectMeta
    data: dict[str, str] = field(default_factory=dict)


CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", MutableConfigMap)


async def test_a_late_handler_sees_each_object_once_as_initial_without_gap_or_disorder() -> None:
    async with run_proxied_plane() as proxied:
        created = {
            f"g{number:02}": await proxied.create(f"g{number:02}") for number in range(MANY)
        }
        async with run_informer(proxied) as observed:
            changes_of_late_handlers: list[list[Change[Gauge]]] = []

            async def update(name: str) -> None:
                latest = created[name]
                for count in range(2, ROUNDS + 2):
                    body = {"spec": {"count": count}}
                    latest = await proxied.direct.patch(GAUGES, Version.from_object(latest), body)

            async with anyio.create_task_group() as group:
                for name in created:
                    group.start_soon(update, name)
                for reported in range(MANY, MANY * 5, MANY):
                    await observed.wait_for_changes(reported)
                    recorded: list[Change[Gauge]] = []
                    observed.informer.add_handler(recorded.append)
                    # The initial changes are delivered before `add_handler` returns.
                    assert len(recorded) == len(observed.informer.cache)
                    cached_gauges = [
                        observed.informer.cache.get(change.new.metadata.key)
                        for change in recorded
                        if change.new
                    ]
                    assert cached_gauges == [change.new for change in recorded]
                    changes_of_late_handlers.append(recorded)
            await observed.wait_for_changes(MANY * (ROUNDS + 1))
            for recorded in changes_of_late_handlers:
                initial = [
                    change.new.metadata.name
                    for change in recorded
                    if change.initial and change.new
                ]
                assert sorted(initial) == sorted(created)
                changes_by_name: dict[str, list[Change[Gauge]]] = defaultdict(list)
                for change in recorded:
                    assert change.new is not None
                    changes_by_name[change.new.metadata.name].append(change)
                for changes in changes_by_name.values():
                    assert changes[0].initial
                    assert not any(change.initial for change in changes[1:])
                    assert all(before.new == after.old for before, after in pairwise(changes))
                    assert changes[-1].new is not None
                    assert changes[-1].new.spec.count == ROUNDS + 1


async def test_a_reconciler_cannot_change_a_cached_object_for_other_readers() -> None:
    async with run_proxied_plane() as proxied:
        body = {"metadata": {"name": "a", "labels": {"team": "net"}}, "data": {"x": "1"}}
        await proxied.direct.create(CONFIG_MAPS, "default", body)
        manager = Manager(proxied.transport, clock=proxied.clock)
        config_maps = manager.get_informer(CONFIG_MAPS)
        attempted = anyio.Event()

        async def try_to_change(key: Key) -> Outcome:
            config_map = config_maps.cache.get(key)
            assert config_map is not None
            metadata = config_map.metadata
            for attempt in (
                lambda: metadata.labels.update(team="ours"),  # type: ignore[attr-defined]
                lambda: setattr(metadata, "labels", {}),
                lambda: setattr(config_map, "data", {}),
            ):
                with pytest.raises((AttributeError, TypeError)):
                    attempt()
            if key.name == "a":
                attempted.set()
            return SETTLED

        manager.add_controller("vandal", try_to_change, watches=[Watch(config_maps, to_self)])
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            with anyio.fail_after(SECONDS):
                await attempted.wait()
            config_map = config_maps.cache.get(Key("default", "a"))
            group.cancel_scope.cancel()
        assert config_map is not None
        assert config_map.metadata.labels == {"team": "net"}
        assert config_map.data == {"x": "1"}


async def test_the_detector_of_mutations_names_what_was_changed_in_place() -> None:
    async with run_proxied_plane() as proxied, open_transport(proxied.plane) as transport:
        await proxied.direct.create(
            CONFIG_MAPS, "default", {"metadata": {"name": "a"}, "data": {"x": "1"}}
        )
        options = ManagerOptions(detect_mutations=True)
        manager = Manager(transport, options=options)
        config_maps = manager.get_informer(CONFIG_MAPS)

        async def change_in_place(key: Key) -> Outcome:
            config_map = config_maps.cache.get(key)
            if config_map is not None and key.name == "a":
                config_map.data["x"] = "2"
            return SETTLED

        manager.add_controller("scribbler", change_in_place, watches=[Watch(config_maps, to_self)])
        with anyio.fail_after(SECONDS), pytest.raises(ObjectMutated) as reported:
            await manager.run()
        assert "ConfigMap default/a was changed in place" in str(reported.value)
        assert '{"x":"1"}' in str(reported.value)
        assert '{"x":"2"}' in str(reported.value)
