"""The proxy itself: whom it lets through, what it notes, what it leaves behind."""

import asyncio
import base64
import os
import ssl
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
import yaml

from controller import Client, HttpTransport, NoAnswer
from controller.endpoint import Endpoint, StaticToken
from envtest import ControlPlane, PlaneError
from envtest.faults import (
    Match,
    Proxy,
    refuse_as_forbidden,
    refuse_as_internal_error,
    silence_watch,
)
from envtest.plane import RunningControlPlane as Plane
from tests.clock import settle
from tests.envtest.samples import PATH, build_gauge_definition
from tests.faults.proxied import GAUGES, LIST, open_transport, run_proxied_plane


async def test_a_proxy_can_be_used_wherever_a_control_plane_can(tmp_path: Path) -> None:
    async with ControlPlane.start() as plane, Proxy.run_before(plane) as proxy:
        await proxy.install_crds([build_gauge_definition()])
        path = proxy.write_kubeconfig(tmp_path / "config")
        config = yaml.safe_load(path.read_text(encoding="utf-8"))

        assert config["clusters"][0]["cluster"]["server"] == proxy.url != plane.url
        assert proxy.kind == plane.kind
        async with httpx.AsyncClient(
            base_url=proxy.url,
            verify=proxy.create_admin_tls(),
            headers=proxy.build_admin_headers(),
        ) as admin:
            assert (await admin.get(PATH)).status_code == 200


async def test_a_crd_that_is_not_served_in_time_is_reported_with_the_last_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("envtest.plane._ESTABLISHED_SECONDS", 0.0)
    async with ControlPlane.start() as plane, Proxy.run_before(plane) as proxy:
        with (
            proxy.inject(refuse_as_forbidden(), LIST),
            pytest.raises(
                PlaneError, match=r"not served .*: (condition Established is|GET .* answers 403)"
            ),
        ):
            await proxy.install_crds([build_gauge_definition()])


async def test_a_proxy_may_stand_before_a_proxy() -> None:
    async with run_proxied_plane() as proxied, Proxy.run_before(proxied.proxy) as outer:
        with outer.inject(refuse_as_forbidden(), Match(nth=2)) as injection:
            async with open_transport(outer) as transport:
                await Client(transport).list(GAUGES)
        assert len(outer.calls) == len(proxied.proxy.calls) == 1
        assert len(injection.affected_calls) == 0


async def test_users_without_credentials_are_refused_as_by_the_server() -> None:
    async with run_proxied_plane() as proxied:
        for headers in ({}, {"Authorization": "Bearer unknown"}):
            answers = [await _get(plane, headers) for plane in (proxied.plane, proxied.proxy)]
            assert answers[0] == answers[1]
            assert answers[0][0] in (401, 403)


async def _get(plane: Plane, headers: dict[str, str]) -> tuple[int, str]:
    """Get PATH without the administrator's TLS settings, which may carry a certificate."""
    cluster = yaml.safe_load(plane.get_kubeconfig())["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)
    async with httpx.AsyncClient(base_url=plane.url, verify=tls, headers=headers) as client:
        answer = await client.get(PATH)
        return answer.status_code, answer.text


async def test_a_user_that_was_not_added_has_no_kubeconfig() -> None:
    async with ControlPlane.start() as plane, Proxy.run_before(plane) as proxy:
        if plane.kind != "binaries":
            pytest.skip("only a real control plane has to be told of its users")
        with pytest.raises(PlaneError, match="there is no user joe"):
            proxy.get_kubeconfig("joe")


async def test_a_fault_is_injected_only_within_its_context() -> None:
    async with run_proxied_plane() as proxied:
        with proxied.proxy.inject(refuse_as_internal_error(), Match(verb="create")) as injection:
            await proxied.client.list(GAUGES)
        await proxied.client.list(GAUGES)
        assert len(injection.affected_calls) == 0


async def test_a_fault_that_answers_leaves_nothing_to_those_after_it() -> None:
    async with run_proxied_plane() as proxied:
        with (
            proxied.proxy.inject(refuse_as_internal_error(), LIST) as first,
            proxied.proxy.inject(refuse_as_forbidden(), LIST) as second,
        ):
            with pytest.raises(Exception, match="500"):
                await proxied.client.list(GAUGES)
            assert (len(first.affected_calls), len(second.affected_calls)) == (1, 0)


async def test_clients_of_the_proxy_notice_that_the_server_has_ended() -> None:
    async with AsyncExitStack() as server:
        plane = await server.enter_async_context(ControlPlane.start())
        async with Proxy.run_before(plane) as proxy, open_transport(proxy) as transport:
            await server.aclose()
            with pytest.raises(NoAnswer):
                await Client(transport).list(GAUGES)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc to count files in")
async def test_a_closed_proxy_leaves_no_connections_and_no_tasks() -> None:
    await open_and_close_proxies(1)
    before = (open_files(), len(asyncio.all_tasks()))
    await open_and_close_proxies(10)
    assert (open_files(), len(asyncio.all_tasks())) == before


async def open_and_close_proxies(count: int) -> None:
    """Open and close `count` proxies before one control plane, which then ends."""
    async with ControlPlane.start() as plane:
        await plane.install_crds([build_gauge_definition()])
        for _ in range(count):
            await open_and_close_proxy(plane)
    await settle()


def open_files() -> int:
    """Return how many files and sockets this process has open."""
    return len(os.listdir("/proc/self/fd"))


async def open_and_close_proxy(plane: Plane) -> None:
    """Open a proxy with two watches, one of them silent, and close it while both are open."""
    async with AsyncExitStack() as stack:
        async with Proxy.run_before(plane) as proxy:
            _, _, token = proxy.build_admin_headers()["Authorization"].partition(" ")
            transport = HttpTransport(
                Endpoint(proxy.url, StaticToken(token), proxy.create_admin_tls())
            )
            stack.push_async_callback(transport.aclose)
            stack.enter_context(proxy.inject(silence_watch(), Match(times=1)))
            for _ in range(2):
                await stack.enter_async_context(transport.stream(PATH, query={"watch": "1"}))
        assert len(proxy.ended_calls) == 2
