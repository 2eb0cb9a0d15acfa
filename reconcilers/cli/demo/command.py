"""`butler-ipam demo`: runs the steps of story.yaml; exits 0 only if all checks pass."""

import io
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import click

from controller import logs
from controller.clock import Clock, SystemClock
from controller.jobs import run_in_background
from controller.pages import Bind
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER
from reconcilers.cli.demo import settings
from reconcilers.cli.demo.promises import OverlapWatch, ReleaseWatch
from reconcilers.cli.demo.steps import (
    DidNotHappen,
    Pause,
    StoryStep,
    format_paragraph,
    play,
    serve_silence,
    skip_pause,
)
from reconcilers.cli.demo.story import TENANTS, build_story, read_story
from reconcilers.cli.demo.view import PlatformView
from reconcilers.cli.flags import duration_option, option
from reconcilers.cli.interrupts import Interrupted
from reconcilers.cli.local.platform import LocalPlatform, LocalTenant, describe_start, run_platform
from reconcilers.cli.local.servers import (
    choose_kubeconfig_path,
    run_servers,
    write_kubeconfig,
)
from reconcilers.cli.problems import CommandProblem
from reconcilers.cli.sharedflags import load_balancer_option
from reconcilers.ui.serving import serve_local_page

Story = Callable[[OverlapWatch, ReleaseWatch, str], list[StoryStep]]
KEY_BYTES = 64
"""More than any key sends: arrows send three, pasted text more."""
LOG_LINES = 40
"""How many of the last lines of the log are shown if a step did not happen."""


@click.command()
@duration_option(
    "--step-timeout",
    default=30.0,
    help="Wait this long for the effect of a step; after that, the demo fails.",
)
@option("--step", is_flag=True, help="Wait for a key in each step, before anything is done.")
@option(
    "--ui",
    "shows",
    is_flag=True,
    help="Serve the map of addresses as a web page that stays current; on a terminal, wait for a"
    " key before the first step and after the last.",
)
@option(
    *("--verbose", "-v"),
    is_flag=True,
    help="Show the log of the controllers on standard error.",
)
@load_balancer_option()
def demo(
    *, step_timeout: float, step: bool, shows: bool, verbose: bool, load_balancer: str
) -> None:
    """Play a tour of what the controllers do, on local API servers, and check each step.

    The demo starts API servers, two replicas of the controllers, and in each tenant a stand-in
    for the load balancer. The API servers are embedded, or real ones if KUBEBUILDER_ASSETS names a
    folder with etcd and kube-apiserver. The load balancer is the real one if that folder has
    MetalLB's controller as metallb-controller, or Cilium's LB-IPAM as cilium-lbipam.

    The demo explains each step and prints what the API servers show. It shortens long thresholds,
    and says which. With Cilium, the tour is shorter. The exit code is 0 only if every step had its
    effect.
    """
    terminal = sys.stdin.isatty()
    if step and not terminal:
        raise click.UsageError("--step waits for keys, and standard input is no terminal")
    # Without --verbose, the log is kept, and its end is shown if a step fails.
    log = io.StringIO()
    logs.configure_logs("console", "info", stream=sys.stderr if verbose else log)
    try:
        mode = PlayMode(
            pause_in_step=wait_for_key if step else skip_pause,
            pause_at_ends=wait_for_key if shows and terminal else skip_pause,
            serves_page=shows,
            writes_kubeconfig=step,
        )
        make_steps = partial(build_story, provider=load_balancer)
        run_servers(partial(perform, step_timeout, make_steps, mode, load_balancer))
    except DidNotHappen as failure:
        for line in log.getvalue().splitlines()[-LOG_LINES:]:
            click.echo(f"    log: {line}", err=True)
        raise CommandProblem(str(failure)) from failure
    except Interrupted:
        # Abort gives the exit code 1: an interrupted demo has not checked all steps.
        raise click.Abort from None


@dataclass(frozen=True, slots=True)
class PlayMode:
    """How a story is played.

    Args:
        pause_in_step: awaited in each step, after its title and text.
        pause_at_ends: awaited before the first step and after the last.
        serves_page: whether the live page is served.
        writes_kubeconfig: whether a kubeconfig is written. With pauses in steps, there is time to
            look at the platform with kubectl.
    """

    pause_in_step: Pause = skip_pause
    pause_at_ends: Pause = skip_pause
    serves_page: bool = False
    writes_kubeconfig: bool = False


_WITHOUT_PAUSE = PlayMode()


async def wait_for_key() -> None:
    """Wait until a key is pressed on the terminal. Earlier input does not count."""
    terminal_attributes = termios.tcgetattr(sys.stdin)
    try:
        # Without line mode, any key suffices. setcbreak also drops earlier input.
        tty.setcbreak(sys.stdin)
        click.echo(click.style("    press any key ", dim=True), nl=False)
        await anyio.wait_readable(sys.stdin)
        os.read(sys.stdin.fileno(), KEY_BYTES)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, terminal_attributes)
        click.echo()


async def perform(
    step_timeout: float,
    make_steps: Story = build_story,
    mode: PlayMode = _WITHOUT_PAUSE,
    provider: str = DEFAULT_LOAD_BALANCER,
) -> None:
    """Start the platform, play the story, stop the platform.

    Args:
        step_timeout: the most seconds to wait for each check.
        make_steps: returns the steps.
        mode: the pauses, and whether the live page is served.
        provider: the load balancer of tenants, as a TenantCluster names it.

    Raises:
        DidNotHappen: a step did not have its effect; the message names the step.
    """
    clock = SystemClock()
    started_at = clock.monotonic()
    click.echo(describe_start(provider))
    tenants = TENANTS[provider]
    running_platform = run_platform(
        tenants, clock, settings.REPLICAS, options=settings.ELECTION, provider=provider
    )
    async with running_platform as running:
        click.echo(_describe_platform(running, tenants))
        if mode.writes_kubeconfig:
            path = choose_kubeconfig_path(asked_path=None, data=None, name="platform.kubeconfig")
            write_kubeconfig(path, running.management.kubeconfig)
            click.echo("In another terminal, to look at it between the steps:")
            click.echo(f"    kubectl --kubeconfig {path} get np,ipa,tc -A\n")
        click.echo(format_paragraph(read_story(provider)["introduction"]))
        view, overlaps = PlatformView(running, clock), OverlapWatch()
        releases = ReleaseWatch(view)
        view.allocations.subscribe(overlaps.record_change)
        view.allocations.subscribe(releases.queue_release)
        with serve_silence() as silent_url:
            steps = make_steps(overlaps, releases, silent_url)
            tasks = [releases.run, *view.watches]
            async with run_in_background(tasks), _serve_page(running, clock, mode):
                await mode.pause_at_ends()
                await play(
                    steps,
                    view,
                    clock=clock,
                    echo=click.echo,
                    seconds=step_timeout,
                    pause=mode.pause_in_step,
                )
                await mode.pause_at_ends()
    duration = clock.monotonic() - started_at
    click.echo(f"\nAll {len(steps)} steps happened, in {duration:.1f} s.\n")
    click.echo(format_paragraph(read_story(provider)["end"]))


@asynccontextmanager
async def _serve_page(running: LocalPlatform, clock: Clock, mode: PlayMode) -> AsyncIterator[None]:
    """Serve the live page of the management cluster during the context, and print its URL.

    Do nothing if the story is played without the page.
    """
    if not mode.serves_page:
        yield
        return
    async with (
        running.management.connect() as transport,
        serve_local_page(transport, clock, Bind("127.0.0.1", 0)) as url,
    ):
        click.echo(f"    the map       {url}\n")
        yield


def _describe_platform(running: LocalPlatform, tenants: Sequence[LocalTenant]) -> str:
    """Return the URLs of the servers, and the times that the demo shortens."""
    lines = [f"    platform      {running.management.url}   {running.management.description}"]
    for tenant in tenants:
        server = running.tenants[tenant.cluster]
        balancer = (
            running.balancer.name if tenant.has_balancer else f"no {running.balancer.title} yet"
        )
        lines.append(f"    {tenant.cluster!s:13} {server.url}   {server.description}, {balancer}")
    lines.append("Times are scaled, so that the demo is short:")
    lines += [f"    {line}" for line in settings.describe_scaled_times()]
    return "\n".join(lines) + "\n"
