"""What a story is made of: steps, in which something is done, and something must then be seen.

A step may also be a number of writes that the API server has to refuse, or to warn of.
"""

import socket
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from controller.clock import Clock
from controller.errors import ApiError, ControllerError
from controller.httptransport import HttpTransport
from controller.meta import Key
from controller.resource import Resource
from controller.transport import Transport
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.names import API_VERSION, DEFAULT_NAMESPACE
from reconcilers.cli.demo.view import Broken, NotSeenYet, PlatformView, existing, of_view
from reconcilers.cli.local import webhooks
from reconcilers.cli.local.objects import Manifest, apply, delete
from reconcilers.cli.local.platform import Replica, kubeconfig_secret
from reconcilers.cli.progress import progress

Action = Callable[[PlatformView], Awaitable[None]]
Check = Callable[[PlatformView], Sequence[str]]
"""Returns what is seen, in lines; raises NotYet while it is not."""
Pause = Callable[[], Awaitable[None]]
HOST = "127.0.0.1"
WIDTH = 76
"""Of a text's lines, without what they are indented by."""


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One step of a story: what is done first, and what must be seen at the end, in this order.

    `text` tells a person who has never seen it what happens and why.
    """

    title: str
    checks: tuple[Check, ...]
    actions: tuple[Action, ...] = ()
    explanation: str = ""


class DidNotHappen(Exception):
    """A step did not happen; the message names it and says what was seen instead."""


def paragraph(explanation: str) -> str:
    """Return a text as the story's lines, under its titles."""
    return textwrap.indent(textwrap.fill(explanation, WIDTH, break_on_hyphens=False), "    ")


async def no_pause() -> None:
    """Return at once, for steps without a pause."""


async def play(
    steps: Sequence[StoryStep],
    view: PlatformView,
    clock: Clock,
    echo: Callable[[str], None],
    seconds: float,
    pause: Pause = no_pause,
) -> None:
    """Do one step after the other, and wait up to `seconds` for each of its checks.

    `pause` is awaited after the title and the text of each.

    Raises:
        DidNotHappen: names the first step that did not.
    """
    for number, step in enumerate(steps, start=1):
        echo("\n" + click.style(f"{number:2}  {step.title}", bold=True))
        if step.explanation:
            echo(paragraph(step.explanation))
        await pause()
        begun = clock.monotonic()
        try:
            with progress(step.title):
                for action in step.actions:
                    await action(view)
            for check in step.checks:
                with progress(step.title):
                    lines = await view.until(check, seconds)
                for line in lines:
                    echo(f"    {' ' if line.startswith(' ') else '-'} {line}")
        except (NotSeenYet, Broken, ControllerError) as why:
            took = clock.monotonic() - begun
            raise DidNotHappen(
                f"step {number} of {len(steps)} ({step.title}) did not happen within"
                f" {took:.1f} s: {why}"
            ) from why


@of_view
async def declare(view: PlatformView, *manifests: Manifest, tenant: Key | None = None) -> None:
    """Apply manifests to the management cluster, or to a tenant."""
    for manifest in manifests:
        await apply(view.server(tenant).transport, manifest, DEFAULT_NAMESPACE)


@of_view
async def wait_for(view: PlatformView, check: Check) -> None:
    """Wait for what the actions after it rely on."""
    await view.until(check)


@of_view
async def remove(
    view: PlatformView, resource: Resource[Any], *keys: Key, tenant: Key | None = None
) -> None:
    """Delete objects of the management cluster, or of a tenant."""
    for key in keys:
        await delete(view.server(tenant).client, resource, key)


class Stopwatch:
    """Measures from an action to a check."""

    def __init__(self) -> None:
        self._begun = 0.0

    async def start(self, view: PlatformView) -> None:
        """Begin to measure now."""
        self._begun = view.now()

    def check_faster_than(self, limit: float, name: str) -> Check:
        """Return a check that less than `limit` seconds have passed since `start`."""

        def check(view: PlatformView) -> list[str]:
            took = view.now() - self._begun
            if took >= limit:
                raise Broken(f"it took {took:.1f} s, no less than {name}")
            return [f"that took {took:.1f} s; {name} is {limit:g} s"]

        return check


@contextmanager
def silent_server() -> Iterator[str]:
    """Yield the URL of a server that accepts connections and never answers: worse than none."""
    with socket.create_server((HOST, 0)) as listener:
        yield f"https://{HOST}:{listener.getsockname()[1]}"


@of_view
async def give_kubeconfig(view: PlatformView, cluster: Key, url: str, like: Key) -> None:
    """Write a cluster's kubeconfig: another one's, with another URL."""
    other = view.tenants[like].server
    kubeconfig = other.kubeconfig.replace(other.url, url)
    await apply(view.management.transport, kubeconfig_secret(cluster, kubeconfig))


class LeaderLoss:
    """A burst of requests, in the midst of which the leader is lost.

    The leader is cut off from the API server and does not know: what it had under way may be lost
    or done. It still believes that it leads until it cannot renew the lease; the other
    replica waits until the lease has passed, and goes on from what is written.
    """

    def __init__(self) -> None:
        self._pool = Key("", "")
        self._requests: Sequence[Manifest] = ()
        self._lost, self._served = "", 0

    async def act(self, view: PlatformView, requests: Sequence[Manifest]) -> None:
        """Ask for half, cut the leader off while it serves them, ask for the other half.

        All `requests` are IPAllocations of one pool.

        Raises:
            NotYet: no replica leads, or no request is served.
        """
        self._pool = Key(DEFAULT_NAMESPACE, requests[0]["spec"]["poolRef"]["name"])
        self._requests = requests
        half = len(self._requests) // 2
        await declare(*self._requests[:half])(view)
        await view.until(self._check_begun)
        leader, next_leader = self._roles(view)
        await webhooks.redirect(view.management.client, await next_leader.webhook_port())
        await leader.cut_off()
        self._lost, self._served = leader.name, len(self._done(view))
        await declare(*self._requests[half:])(view)

    def see(self, view: PlatformView) -> list[str]:
        """Check that the other replica leads, and that all requests are served."""
        holder = self._holder(view)
        if holder in ("", self._lost):
            raise NotSeenYet(f"the lease is still that of {holder or 'no replica'}")
        done, whole = len(self._done(view)), len(self._requests)
        if done < whole:
            raise NotSeenYet(f"{done} of {whole} IPAllocations of {self._pool.name} are served")
        then = f"when it had served {self._served} of {whole} requests; {holder} took the lease"
        return [
            f"{self._lost} led, and was cut off from the API server {then}",
            f"NetworkPool {self._pool.name}: all {whole} are served",
        ]

    def _check_begun(self, view: PlatformView) -> Sequence[str]:
        if not self._done(view):
            raise NotSeenYet(f"no IPAllocation of {self._pool.name} is served")
        return ()

    def _done(self, view: PlatformView) -> list[IPAllocation]:
        allocations = [
            allocation for allocation in view.allocations if allocation.pool_key == self._pool
        ]
        return [allocation for allocation in allocations if allocation.status.phase == ALLOCATED]

    def _roles(self, view: PlatformView) -> tuple[Replica, Replica]:
        """Return the replica that leads, and the one that waits."""
        holder = self._holder(view)
        leader = [replica for replica in view.replicas if replica.name == holder]
        others = [replica for replica in view.replicas if replica.name != holder]
        if not leader or not others:
            raise NotSeenYet(f"the lease is that of {holder or 'no replica'}")
        return leader[0], others[0]

    def _holder(self, view: PlatformView) -> str:
        lease = view.replicas[0].options.lease_of(self._pool)
        return existing(view.leases, lease).spec.holderIdentity or ""


MOST = 3
"""So many reasons of one refusal are shown."""
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A write that should be refused or warned of; its `words` must be in the answer."""

    description: str
    method: str
    path: str
    body: Mapping[str, Any] | None
    words: str

    async def send(self, transport: Transport) -> None:
        """Send the request; a POST is a dry run, so that it creates nothing.

        Raises:
            ApiError: it was refused.
            ControllerError: the server did not answer.
        """
        await transport.request(
            self.method,
            self.path,
            query={"dryRun": "All"} if self.method == "POST" else {},
            body=None if self.body is None else msgspec.json.encode(self.body),
            content_type=MERGE if self.method == "PATCH" else "application/json",
        )


def attempt(
    description: str, verb: str, resource: Resource[Any], name: str, spec: Manifest, words: str
) -> Attempt:
    """Return the attempt to `create` an object, to `change` its spec, or to `delete` it."""
    path = resource.path(Key(DEFAULT_NAMESPACE, name))
    match verb:
        case "create":
            body = ours(resource.kind, name, spec)
            return Attempt(
                description,
                "POST",
                path=resource.collection(DEFAULT_NAMESPACE),
                body=body,
                words=words,
            )
        case "change":
            return Attempt(description, "PATCH", path=path, body={"spec": spec}, words=words)
        case _:
            return Attempt(description, "DELETE", path=path, body=None, words=words)


def ours(kind: str, name: str, spec: Manifest) -> Manifest:
    """Return an object of ours in the platform's namespace."""
    meta = {"name": name, "namespace": DEFAULT_NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}


class _Answers:
    """What was answered, from the action that asks to the check that shows it."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._attempts = attempts
        self._lines: list[str] = []

    async def refuse(self, view: PlatformView) -> None:
        """Try each of them, and hold the server to refusing it."""
        for attempt in self._attempts:
            try:
                await attempt.send(view.management.transport)
            except ApiError as refusal:
                self._note(attempt, "refused", reasons(refusal))
            else:
                raise Broken(f"{attempt.description}, and it was not refused")

    async def warn(self, view: PlatformView) -> None:
        """Try each of them, and hold the server to warning of it."""
        async with view.management.connect() as transport:
            for attempt in self._attempts:
                warnings = list[str]()
                if isinstance(transport, HttpTransport):
                    transport.on_warning = warnings.append
                await attempt.send(transport)
                self._note(attempt, "warned", warnings)

    def lines(self, _: PlatformView) -> Sequence[str]:
        """Return the answers of the API server."""
        return self._lines

    def _note(self, attempt: Attempt, how: str, said: Sequence[str]) -> None:
        if not any(attempt.words in line for line in said):
            answer = f"the server's answer: {'; '.join(said) or 'nothing'}"
            raise Broken(f"{attempt.description}, and {attempt.words!r} is not in {answer}")
        self._lines += [attempt.description, *(f"    {how}: {line}" for line in said[:MOST])]
        if more := len(said[MOST:]):
            self._lines.append(f"    and {more} more")


def reasons(refusal: ApiError) -> list[str]:
    """Return why something was refused, one line for each cause that the server names."""
    causes = [
        f"{cause.field}: {cause.message}" if cause.field else cause.message
        for cause in refusal.causes
    ]
    return causes or [refusal.message]


def expect_refusals(title: str, *attempts: Attempt, explanation: str = "") -> StoryStep:
    """Return the step in which all of these are refused."""
    answers = _Answers(attempts)
    return StoryStep(title, (answers.lines,), actions=(answers.refuse,), explanation=explanation)


def expect_warnings(title: str, *attempts: Attempt, explanation: str = "") -> StoryStep:
    """Return the step in which all of these are let through with a warning."""
    answers = _Answers(attempts)
    return StoryStep(title, (answers.lines,), actions=(answers.warn,), explanation=explanation)
