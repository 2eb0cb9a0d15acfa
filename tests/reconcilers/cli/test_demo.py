"""The demo: it plays all its steps, and names the step that does not happen."""

import re
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stderr

import anyio
import pytest

from controller.cache import Change
from controller.clock import Clock, SystemClock
from controller.endpoint import Endpoint
from controller.errors import Cause, Invalid
from controller.httptransport import HttpTransport
from envtest.settings import read_settings
from reconcilers.api import names
from reconcilers.api.crd import build_crds
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import NETWORK_POOL, TENANT_CLUSTER
from reconcilers.cli import progress
from reconcilers.cli.demo import checks
from reconcilers.cli.demo.command import perform
from reconcilers.cli.demo.promises import OverlapWatch, ReleaseWatch
from reconcilers.cli.demo.steps import (
    DidNotHappen,
    StoryStep,
    apply_manifests,
    build_attempt,
    build_own_object,
    delete_objects,
    expect_refusals,
    expect_warnings,
    list_reasons,
    play,
)
from reconcilers.cli.demo.story import WEB, build_story
from reconcilers.cli.demo.view import Broken, PlatformView
from reconcilers.cli.interrupts import find_sole_failure
from reconcilers.cli.local.objects import make_namespaces
from reconcilers.cli.local.platform import LocalPlatform
from reconcilers.cli.local.servers import ApiServer, run_api_server
from reconcilers.ipallocation.release import Released
from reconcilers.loadbalancers.metallb.projection import TenantMetalLB
from reconcilers.tenantcluster.release.check import TenantReleaseCheck
from tests.clock import VirtualClock
from tests.reconcilers.cli.commands import find_installed_command, run_to_end, start
from tests.reconcilers.cli.test_progress import FakeTerminal
from tests.reconcilers.make import allocation

HOLDER, WAITING = "fills-the-pool", "comes-too-late"
"""Requests of the story: one takes a whole pool, the other waits for it."""


def describe_expected_parts() -> tuple[str, str]:
    """Return patterns that describe the API server and the MetalLB which the environment names."""
    settings = read_settings()
    server = "embedded API server"
    if settings.kind == "binaries":
        assert settings.apiserver is not None
        done = subprocess.run([settings.apiserver, "--version"], capture_output=True, check=True)
        [version] = re.findall(r"v[\d.]+", done.stdout.decode())
        server = f"kube-apiserver {re.escape(version)}"
    metallb = r"stand-in for MetalLB" if settings.metallb is None else r"MetalLB \d+\.\d+\.\d+"
    return server, metallb


@pytest.mark.long
async def test_the_demo_plays_all_its_steps_on_the_servers_that_the_environment_names() -> None:
    done = await run_to_end(
        "demo", "--step-timeout=60s", seconds=300.0, program=find_installed_command
    )
    printed = done.stdout.decode()
    assert done.returncode == 0, printed + done.stderr.decode()
    assert printed.startswith("Starting:\n")
    server, metallb = describe_expected_parts()
    assert re.search(rf"^ +platform +https://\S+ +{server}$", printed, re.MULTILINE), printed
    for tenant in ("team-a/web", "team-b/shop"):
        assert re.search(rf"^ +{tenant} +https://\S+ +{server}, {metallb}$", printed, re.MULTILINE)
    assert "no two ranges ever overlapped" in printed
    assert "All 28 steps happened" in printed
    assert "2 s, not 30 s, until a Service without an address makes its tenant grow" in printed
    assert done.stderr == b""


@pytest.mark.long
async def test_the_demo_with_cilium_plays_all_its_steps() -> None:
    flags = ("--step-timeout=60s", "--load-balancer=cilium")
    done = await run_to_end("demo", *flags, seconds=300.0)
    printed = done.stdout.decode()
    assert done.returncode == 0, printed + done.stderr.decode()
    lbipam = "Cilium LB-IPAM" if read_settings().lbipam else "stand-in for Cilium LB-IPAM"
    assert f"Service storefront has 10.40.0.16 ({lbipam})" in printed
    assert "LoadBalancerAnnounced is False, NotAnnounced" in printed
    assert "All 8 steps happened" in printed
    assert done.stderr == b""


async def test_an_interrupted_demo_ends_without_a_traceback() -> None:
    async with start("demo") as demo:
        await demo.wait_for_output("An administrator declares")
        assert await demo.stop(signal.SIGINT) == 130
    assert "Traceback" not in demo.stdout + demo.stderr


async def test_a_demo_that_fails_names_the_step_and_shows_the_end_of_the_log() -> None:
    done = await run_to_end("demo", "--step-timeout=0s")
    complained = done.stderr.decode()
    assert done.returncode == 1
    assert "error: step 1 of 28 (An administrator declares two pools) did not happen" in complained
    assert "    log: " in complained
    assert "Traceback" not in complained


async def test_the_error_of_a_demo_without_server_programs_names_their_folder() -> None:
    done = await run_to_end("demo", KUBEBUILDER_ASSETS="/nowhere")
    assert done.returncode == 1
    assert "/nowhere" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


async def test_a_demo_does_not_touch_a_cluster_that_exists() -> None:
    done = await run_to_end("demo", USE_EXISTING_CLUSTER="true", KUBECONFIG="/nowhere")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        "error: USE_EXISTING_CLUSTER names one cluster, and this command starts several API"
        " servers: unset it\n"
    )


def _make_unreachable_view(clock: Clock) -> PlatformView:
    """Return the view of a platform whose API server does not exist; it shows no objects."""
    transport = HttpTransport(Endpoint("https://nowhere.invalid"))
    nowhere = ApiServer(
        "management",
        "https://nowhere.invalid",
        kind="embedded",
        kubeconfig="",
        transport=transport,
    )
    return PlatformView(LocalPlatform(nowhere, {}), clock)


def _make_unused_view() -> PlatformView:
    """Return a view without any attribute, for functions that pass it on but do not read it."""
    return PlatformView.__new__(PlatformView)


async def test_a_step_that_does_not_happen_is_named() -> None:
    clock = VirtualClock()
    view, printed = _make_unreachable_view(clock), list[str]()
    step = StoryStep("A pool is not served", (checks.pool_in_use("vlan40", 0),))
    failures = list[str]()

    async def expect_failure() -> None:
        with pytest.raises(DidNotHappen) as failure:
            await play([step], view, clock=clock, echo=printed.append, seconds=30.0)
        failures.append(str(failure.value))

    async with anyio.create_task_group() as group:
        group.start_soon(expect_failure)
        await clock.advance(29.9)
        assert failures == []
        await clock.advance(0.1)
    expected = "step 1 of 1 (A pool is not served) did not happen within 30.0 s:"
    assert failures == [f"{expected} there is no NetworkPool butler-system/vlan40"]


async def test_a_step_prints_its_explanation_and_on_a_terminal_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "PROGRESS_SECONDS", 0.01)
    terminal, printed, clock = FakeTerminal(), list[str](), SystemClock()
    view = _make_unreachable_view(clock)
    step = StoryStep(
        "A pool is not served", (checks.pool_in_use("vlan40", 0),), explanation="Why."
    )
    with redirect_stderr(terminal):
        async with anyio.create_task_group() as group:
            group.start_soon(play, [step], view, clock, printed.append, 3600.0)
            expected = "waiting: there is no NetworkPool butler-system/vlan40 ..."
            assert await anyio.to_thread.run_sync(terminal.wait_for_text, expected)
            group.cancel_scope.cancel()
    assert [line.strip() for line in printed][1:] == ["Why."]


def test_every_step_has_an_explanation_of_at_least_fifteen_words() -> None:
    steps = build_story(OverlapWatch(), ReleaseWatch(_make_unused_view()), "")
    assert len(steps) == 28
    for step in steps:
        assert len(step.explanation.split()) >= 15, step.title
        assert step.explanation.endswith("."), step.title


async def test_the_demo_notices_a_range_that_is_released_before_it_is_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def release_at_once(*arguments: object) -> Released:
        return Released("the tenant was not asked")

    async def skip_deletion(*arguments: object) -> None:
        """Leave the tenant's pool as it is."""

    monkeypatch.setattr(TenantReleaseCheck, "check", release_at_once)
    monkeypatch.setattr(TenantMetalLB, "_delete_objects", skip_deletion)

    def build_short_story(_: OverlapWatch, releases: ReleaseWatch, url: str) -> list[StoryStep]:
        deletion = StoryStep(
            "The tenant is deleted",
            (lambda view: releases.check_removed_first(view, 1),),
            (delete_objects(TENANT_CLUSTER, WEB),),
        )
        return [*build_story(OverlapWatch(), releases, url)[:4], deletion]

    with pytest.raises(ExceptionGroup) as failure:
        await perform(30.0, build_short_story)
    assert "was released, and IPAddressPool default-pool in the tenant still has it" in str(
        find_sole_failure(failure.value)
    )


async def test_a_request_that_has_to_wait_is_sent_after_its_predecessor_is_served() -> None:
    phases = list[str]()

    def record_phase(change: Change[IPAllocation]) -> None:
        if change.new is not None and change.new.metadata.name in (
            HOLDER,
            WAITING,
        ):
            phases.append(f"{change.new.metadata.name} {change.new.status.phase}".strip())

    async def watch(view: PlatformView) -> None:
        view.allocations.subscribe(record_phase)

    def build_short_story(*_: object) -> list[StoryStep]:
        steps = build_story(OverlapWatch(), ReleaseWatch(_make_unused_view()), "")
        waiting = [step for step in steps if step.title.startswith("Two requests have to wait")]
        return [StoryStep("The test watches", (), (watch,)), *waiting]

    await perform(30.0, build_short_story)
    sent_at = next(at for at, phase in enumerate(phases) if phase.startswith(WAITING))
    assert f"{HOLDER} Allocated" in phases[:sent_at]


async def test_a_manifest_that_the_server_rejects_stops_the_demo_with_the_reason() -> None:
    clock = SystemClock()
    rejected_step = StoryStep(
        "Nonsense is declared",
        (),
        (apply_manifests(build_own_object("NetworkPool", "x", {"cidr": "nonsense"})),),
    )
    async with run_api_server("management", build_crds()) as server:
        view = PlatformView(LocalPlatform(server, {}), clock)
        await _make_default_namespace(view)
        with pytest.raises(DidNotHappen, match=r"Nonsense is declared.*cidr"):
            await play([rejected_step], view, clock=clock, echo=lambda _: None, seconds=5.0)


async def test_a_missing_rejection_stops_the_demo() -> None:
    valid_spec = {"cidr": "10.0.0.0/24"}
    step = expect_refusals(
        "All is refused",
        build_attempt(
            "a sound pool",
            "create",
            resource=NETWORK_POOL,
            name="sound",
            spec=valid_spec,
            words="unsound",
        ),
    )
    async with _run_platform_view() as view:
        with pytest.raises(DidNotHappen, match="a sound pool, and it was not refused"):
            await play([step], view, clock=SystemClock(), echo=lambda _: None, seconds=5.0)


async def test_a_rejection_for_another_reason_stops_the_demo() -> None:
    odd = {"cidr": "nonsense"}
    step = expect_refusals(
        "It is refused",
        build_attempt(
            "a pool", "create", resource=NETWORK_POOL, name="odd", spec=odd, words="straddles"
        ),
    )
    reason = r"'straddles' is not in the server's answer: .*cidr"
    async with _run_platform_view() as view:
        with pytest.raises(DidNotHappen, match=reason):
            await play([step], view, clock=SystemClock(), echo=lambda _: None, seconds=5.0)


async def test_a_missing_warning_stops_the_demo() -> None:
    sound = {"cidr": "10.0.0.0/24"}
    step = expect_warnings(
        "There is a warning",
        build_attempt(
            "a pool", "create", resource=NETWORK_POOL, name="sound", spec=sound, words="host bits"
        ),
    )
    reason = "'host bits' is not in the server's answer: nothing"
    async with _run_platform_view() as view:
        with pytest.raises(DidNotHappen, match=reason):
            await play([step], view, clock=SystemClock(), echo=lambda _: None, seconds=5.0)


def test_each_cause_of_a_refusal_is_printed_on_a_line_of_its_own() -> None:
    causes = [Cause("spec.a", "FieldValueInvalid", "odd"), Cause("", "X", "and another")]
    assert list_reasons(Invalid(422, "Invalid", "all in one", causes=causes)) == [
        "spec.a: odd",
        "and another",
    ]
    assert list_reasons(Invalid(422, "Invalid", "all in one")) == ["all in one"]


@asynccontextmanager
async def _run_platform_view() -> AsyncIterator[PlatformView]:
    """Run an API server with our CRDs and the default namespace; yield the demo's view of it."""
    async with run_api_server("management", build_crds()) as server:
        view = PlatformView(LocalPlatform(server, {}), SystemClock())
        await _make_default_namespace(view)
        yield view


async def _make_default_namespace(view: PlatformView) -> None:
    await make_namespaces(view.management.transport, [names.DEFAULT_NAMESPACE])


def test_the_overlap_watch_reports_an_overlap_that_is_over_again() -> None:
    watch = OverlapWatch()
    holding, other = (
        _make_holder("one", "10.0.0.1", "10.0.0.4"),
        _make_holder("other", "10.0.0.4", "10.0.0.6"),
    )
    watch.record_change(Change(None, holding))
    watch.record_change(Change(None, other))
    watch.record_change(Change(other, None))
    with pytest.raises(Broken, match="other and one overlap"):
        watch.check_no_overlaps(_make_unused_view())


def test_the_overlap_watch_reports_nothing_if_a_range_is_released_before_it_is_given_again() -> (
    None
):
    watch = OverlapWatch()
    holding, other = (
        _make_holder("one", "10.0.0.1", "10.0.0.4"),
        _make_holder("other", "10.0.0.4", "10.0.0.6"),
    )
    watch.record_change(Change(None, holding))
    watch.record_change(Change(holding, None))
    watch.record_change(Change(None, other))
    assert watch.overlaps == []
    assert len(watch.handed_out) == 2


def _make_holder(name: str, start: str, end: str) -> IPAllocation:
    return allocation(name, held_range=(start, end))
