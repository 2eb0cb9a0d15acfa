"""Children and the garbage collector: the order of a foreground deletion, and new kinds.

On binaries the collector is that of kube-controller-manager, which learns of a new kind after up
to half a minute. docs/children.md and docs/testing.md say what is tested here.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller import (
    Client,
    Key,
    Owner,
    Resource,
    Untyped,
    Version,
    add_finalizer,
    connect,
    ensure,
    remove_finalizer,
)
from controller.scaffold import create_crd
from envtest import ControlPlane
from tests.controller.test_scaffold import GADGETS, KIND
from tests.polling import until

FINALIZER = "example.com/hold"
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", Untyped)
GONE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "name": "never-there",
    "uid": "00000000-0000-0000-0000-000000000000",
}
"""A reference to an owner that does not exist."""
OWNER, CHILD, TOOL = Key("default", "owner"), Key("default", "child"), Key("default", "tool")


@asynccontextmanager
async def run_collector(folder: Path) -> AsyncIterator[Client]:
    """Run a server with the garbage collector; yield a client. Skip the test without collector."""
    async with ControlPlane.start(garbage_collector=True) as plane:
        if "garbage" not in plane.controllers:
            pytest.skip("kube-controller-manager is not among the binaries")
        await plane.install_crds([create_crd(KIND)])
        transport = await connect(plane.write_kubeconfig(folder / "kubeconfig"))
        async with aclosing(transport):
            yield Client(transport)


async def make_family(client: Client) -> None:
    """Create an owner with a finalizer, its child, and an object that its finalizer needs."""
    body: dict[str, Any] = {"metadata": {"name": OWNER.name}, "spec": {"limits": {}}}
    owner = await client.create(GADGETS, "default", body)
    owner = await add_finalizer(client, GADGETS, owner, FINALIZER)
    child = {"metadata": {"name": CHILD.name}, "data": {"a": "1"}}
    await ensure(client, CONFIG_MAPS, Owner(owner, GADGETS), child)
    tool = {"metadata": {"name": TOOL.name, "namespace": "default"}, "data": {"a": "1"}}
    await ensure(client, CONFIG_MAPS, None, tool, manager="gadgets")


def make_finder(client: Client, kind: Resource[Any], key: Key) -> Callable[[], Awaitable[Any]]:
    return lambda: client.find(kind, key)


@pytest.mark.slow
async def test_a_foreground_deletion_takes_the_child_while_the_owner_waits_for_its_finalizer(
    tmp_path: Path,
) -> None:
    async with run_collector(tmp_path) as client:
        await make_family(client)
        owner = await client.get(GADGETS, OWNER)
        await client.delete(GADGETS, Version.from_object(owner), propagation="Foreground")
        await until(make_finder(client, CONFIG_MAPS, CHILD), lambda child: child is None)
        owner = await client.get(GADGETS, OWNER)
        assert owner.metadata.is_terminating
        assert FINALIZER in owner.metadata.finalizers, "its work is not done yet"
        assert await client.find(CONFIG_MAPS, TOOL) is not None, "it has no owner reference"
        await until(
            lambda: client.get(GADGETS, OWNER),
            lambda seen: list(seen.metadata.finalizers) == [FINALIZER],
        )
        owner = await client.get(GADGETS, OWNER)
        await remove_finalizer(client, GADGETS, owner, FINALIZER)
        await until(make_finder(client, GADGETS, OWNER), lambda seen: seen is None)


@pytest.mark.slow
async def test_a_background_deletion_keeps_the_child_until_the_finalizer_of_the_owner_is_gone(
    tmp_path: Path,
) -> None:
    async with run_collector(tmp_path) as client:
        await make_family(client)
        owner = await client.get(GADGETS, OWNER)
        held_owner = await client.delete(
            GADGETS, Version.from_object(owner), propagation="Background"
        )
        assert held_owner is not None
        # The collector works on this object too, which is created later and goes first.
        other = {"metadata": {"name": "other", "namespace": "default", "ownerReferences": [GONE]}}
        await client.create(CONFIG_MAPS, "default", other)
        await until(
            make_finder(client, CONFIG_MAPS, Key("default", "other")), lambda seen: seen is None
        )
        assert await client.find(CONFIG_MAPS, CHILD) is not None
        await remove_finalizer(client, GADGETS, held_owner, FINALIZER)
        await until(make_finder(client, CONFIG_MAPS, CHILD), lambda child: child is None)
        assert await client.find(CONFIG_MAPS, TOOL) is not None


@pytest.mark.slow
async def test_the_collector_serves_a_kind_that_it_did_not_know_when_it_started(
    tmp_path: Path,
) -> None:
    async with run_collector(tmp_path) as client:
        # The definition was installed after the collector had started, so this is its first look.
        body: dict[str, Any] = {"metadata": {"name": OWNER.name}, "spec": {"limits": {}}}
        owner = await client.create(GADGETS, "default", body)
        child = {"metadata": {"name": CHILD.name}, "spec": {"limits": {}}}
        await ensure(client, GADGETS, Owner(owner, GADGETS), child)
        await client.delete(GADGETS, Version.from_object(owner))
        await until(make_finder(client, GADGETS, CHILD), lambda seen: seen is None)
