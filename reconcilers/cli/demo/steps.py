"""The steps of a story: each has actions, and checks of the state that must follow.

A step may also be a number of writes that the API server must reject, or must warn about.
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
from reconcilers.cli.demo.view import (
    Broken,
    NotSeenYet,
    PlatformView,
    get_existing,
    take_view_later,
)
from reconcilers.cli.local import webhooks
from reconcilers.cli.local.objects import Manifest, apply, delete
from reconcilers.cli.local.platform import Replica, build_kubeconfig_secret
from reconcilers.cli.progress import show_progress_during

Action = Callable[[PlatformView], Awaitable[None]]
Check = Callable[[PlatformView], Sequence[str]]
"""Returns lines that describe the expected state; raises NotSeenYet until that state is there."""
Pause = Callable[[], Awaitable[None]]
HOST = "127.0.0.1"
WIDTH = 76
"""The width of the lines of a text, without their indentation."""


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One step of a story.

    Args:
        title: one line.
        checks: the states that must follow, in this order.
        actions: the actions, which come before the checks.
        explanation: tells a reader what happens and why.
    """

    title: str
    checks: tuple[Check, ...]
    actions: tuple[Action, ...] = ()
    explanation: str = ""


class DidNotHappen(Exception):
    """A step failed; the message names it and says what was seen instead."""


def format_paragraph(explanation: str) -> str:
    """Return a text as indented lines under a title of the story."""
    return textwrap.indent(textwrap.fill(explanation, WIDTH, break_on_hyphens=False), "    ")


async def skip_pause() -> None:
    """Return at once, for steps without a pause."""


async def play(
    steps: Sequence[StoryStep],
    view: PlatformView,
    clock: Clock,
    echo: Callable[[str], None],
    seconds: float,
    pause: Pause = skip_pause,
) -> None:
    """Play steps one after the other: print the title, run the actions, wait for the checks.

    Args:
        seconds: how long to wait for each check.
        pause: awaited after the title and the text of each step.

    Raises:
        DidNotHappen: names the first step that failed.
    """
    for number, step in enumerate(steps, start=1):
        echo("\n" + click.style(f"{number:2}  {step.title}", bold=True))
        if step.explanation:
            echo(format_paragraph(step.explanation))
        await pause()
        started_at = clock.monotonic()
        try:
            with show_progress_during(step.title):
                for action in step.actions:
                    await action(view)
            for check in step.checks:
                with show_progress_during(step.title):
                    lines = await view.wait_until(check, seconds)
                for line in lines:
                    echo(f"    {' ' if line.startswith(' ') else '-'} {line}")
        except (NotSeenYet, Broken, ControllerError) as why:
            duration = clock.monotonic() - started_at
            raise DidNotHappen(
                f"step {number} of {len(steps)} ({step.title}) did not happen within"
                f" {duration:.1f} s: {why}"
            ) from why


@take_view_later
async def apply_manifests(
    view: PlatformView, *manifests: Manifest, tenant: Key | None = None
) -> None:
    """Apply manifests to the management cluster, or to a tenant."""
    for manifest in manifests:
        await apply(view.get_server(tenant).transport, manifest, DEFAULT_NAMESPACE)


@take_view_later
async def wait_for(view: PlatformView, check: Check) -> None:
    """Wait for a state that later actions rely on."""
    await view.wait_until(check)


@take_view_later
async def delete_objects(
    view: PlatformView, resource: Resource[Any], *keys: Key, tenant: Key | None = None
) -> None:
    """Delete objects of the management cluster, or of a tenant."""
    for key in keys:
        await delete(view.get_server(tenant).client, resource, key)


class Stopwatch:
    """Measures the time from an action to a check."""

    def __init__(self) -> None:
        self._begun = 0.0

    async def start(self, view: PlatformView) -> None:
        """Start the measurement."""
        self._begun = view.now()

    def check_faster_than(self, limit: float, name: str) -> Check:
        """Return a check that less than `limit` seconds have passed since `start`.

        Args:
            limit: seconds.
            name: a name for the limit, for the messages: "the usual wait".
        """

        def check(view: PlatformView) -> list[str]:
            """Return a line with the time that has passed; raise Broken if it was too long."""
            duration = view.now() - self._begun
            if duration >= limit:
                raise Broken(f"it took {duration:.1f} s, no less than {name}")
            return [f"that took {duration:.1f} s; {name} is {limit:g} s"]

        return check


@contextmanager
def serve_silence() -> Iterator[str]:
    """Yield the URL of a server that accepts connections and never answers.

    Such a server is harder to handle than an absent one: only a timeout shows that it is silent.
    """
    with socket.create_server((HOST, 0)) as listener:
        yield f"https://{HOST}:{listener.getsockname()[1]}"


@take_view_later
async def copy_kubeconfig(view: PlatformView, cluster: Key, url: str, source: Key) -> None:
    """Let a cluster's kubeconfig Secret point to a URL, such as that of a silent server.

    The rest of the kubeconfig is copied, so that nothing but the URL can be the fault.

    Args:
        url: the URL of the API server in the copy.
        source: the cluster whose kubeconfig is copied.
    """
    original = view.tenants[source].server
    kubeconfig = original.kubeconfig.replace(original.url, url)
    await apply(view.management.transport, build_kubeconfig_secret(cluster, kubeconfig))


class LeaderLoss:
    """The loss of the leader during a burst of requests.

    The leader is cut off from the API server without notice: its open writes may be lost or done.
    It acts as the leader until it cannot renew the lease. The other replica waits until the
    lease has expired, and continues from the stored objects.
    """

    def __init__(self) -> None:
        self._pool = Key("", "")
        self._requests: Sequence[Manifest] = ()
        self._lost_leader = ""
        """The name of the replica that was cut off; empty before."""
        self._served_before_loss = 0
        """How many requests were served when it was cut off."""

    async def lose_leader(self, view: PlatformView, requests: Sequence[Manifest]) -> None:
        """Create half of the requests, cut the leader off while it serves them, create the rest.

        Args:
            requests: IPAllocations of one pool.

        Raises:
            NotSeenYet: no replica leads, or no request is served.
        """
        self._pool = Key(DEFAULT_NAMESPACE, requests[0]["spec"]["poolRef"]["name"])
        self._requests = requests
        half = len(self._requests) // 2
        await apply_manifests(*self._requests[:half])(view)
        await view.wait_until(self._check_first_served)
        leader, next_leader = self._find_roles(view)
        # From now on, the API server calls the webhooks of the replica that stays.
        await webhooks.redirect_webhooks(
            view.management.client, await next_leader.wait_for_webhook_port()
        )
        await leader.cut_off()
        self._lost_leader, self._served_before_loss = leader.name, len(self._list_served(view))
        await apply_manifests(*self._requests[half:])(view)

    def check_served(self, view: PlatformView) -> list[str]:
        """Check that the other replica leads, and that all requests are served.

        Raises:
            NotSeenYet: no other replica holds the lease, or requests wait.
        """
        holder = self._find_holder(view)
        if holder in ("", self._lost_leader):
            raise NotSeenYet(f"the lease is still that of {holder or 'no replica'}")
        served_count, total = len(self._list_served(view)), len(self._requests)
        if served_count < total:
            raise NotSeenYet(
                f"{served_count} of {total} IPAllocations of {self._pool.name} are served"
            )
        before = f"when it had served {self._served_before_loss} of {total} requests"
        loss = f"{self._lost_leader} led, and was cut off from the API server {before}"
        return [
            f"{loss}; {holder} took the lease",
            f"NetworkPool {self._pool.name}: all {total} are served",
        ]

    def _check_first_served(self, view: PlatformView) -> Sequence[str]:
        """Check that a first request is served, so that the leader is at work; return no lines."""
        if not self._list_served(view):
            raise NotSeenYet(f"no IPAllocation of {self._pool.name} is served")
        return ()

    def _list_served(self, view: PlatformView) -> list[IPAllocation]:
        """Return the served requests of the pool."""
        allocations = [
            allocation for allocation in view.allocations if allocation.pool_key == self._pool
        ]
        return [allocation for allocation in allocations if allocation.status.phase == ALLOCATED]

    def _find_roles(self, view: PlatformView) -> tuple[Replica, Replica]:
        """Return the leading replica and a waiting one; raise NotSeenYet if there are not both."""
        holder = self._find_holder(view)
        leader = [replica for replica in view.replicas if replica.name == holder]
        others = [replica for replica in view.replicas if replica.name != holder]
        if not leader or not others:
            raise NotSeenYet(f"the lease is that of {holder or 'no replica'}")
        return leader[0], others[0]

    def _find_holder(self, view: PlatformView) -> str:
        """Return the name of the replica that holds the lease of the pool's shard; empty for none.

        Raises:
            NotSeenYet: the lease does not exist.
        """
        lease = view.replicas[0].options.get_lease_key(self._pool)
        return get_existing(view.leases, lease).spec.holderIdentity or ""


MOST_REASONS = 3
"""The most reasons of one answer that are shown."""
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A write that the API server must reject or warn about.

    Args:
        description: what is attempted, for the story.
        words: a text that must be in the answer.
    """

    description: str
    method: str
    path: str
    body: Mapping[str, Any] | None
    words: str

    async def send(self, transport: Transport) -> None:
        """Send the request; a POST is a dry run, so that it creates nothing.

        Raises:
            ApiError: the server rejected the request.
            ControllerError: the server did not answer.
        """
        await transport.request(
            self.method,
            self.path,
            query={"dryRun": "All"} if self.method == "POST" else {},
            body=None if self.body is None else msgspec.json.encode(self.body),
            content_type=MERGE if self.method == "PATCH" else "application/json",
        )


def build_attempt(
    description: str, verb: str, resource: Resource[Any], name: str, spec: Manifest, words: str
) -> Attempt:
    """Return an attempt to write an object in the platform's namespace.

    Args:
        verb: `create`, `change` (the spec), or `delete`.
        words: a text that must be in the answer.
    """
    path = resource.build_path(Key(DEFAULT_NAMESPACE, name))
    match verb:
        case "create":
            body = build_own_object(resource.kind, name, spec)
            return Attempt(
                description,
                "POST",
                path=resource.build_collection_path(DEFAULT_NAMESPACE),
                body=body,
                words=words,
            )
        case "change":
            return Attempt(description, "PATCH", path=path, body={"spec": spec}, words=words)
        case _:
            return Attempt(description, "DELETE", path=path, body=None, words=words)


def build_own_object(kind: str, name: str, spec: Manifest) -> Manifest:
    """Return an object of one of our kinds in the platform's namespace."""
    meta = {"name": name, "namespace": DEFAULT_NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}


class _Answers:
    """Sends attempts in an action, and keeps the answers for the check that shows them.

    The action of a step is `expect_refusals` or `expect_warnings`; its check is `list_lines`.
    """

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._attempts = attempts
        self._lines: list[str] = []

    async def expect_refusals(self, view: PlatformView) -> None:
        """Send each attempt, and keep the answer.

        Raises:
            Broken: the server did not reject an attempt, or rejected it for another reason.
        """
        for attempt in self._attempts:
            try:
                await attempt.send(view.management.transport)
            except ApiError as refusal:
                self._note(attempt, "refused", list_reasons(refusal))
            else:
                raise Broken(f"{attempt.description}, and it was not refused")

    async def expect_warnings(self, view: PlatformView) -> None:
        """Send each attempt, and keep the warnings.

        Raises:
            Broken: the server did not warn about an attempt, or warned in other words.
            ApiError: the server rejected an attempt.
        """
        async with view.management.connect() as transport:
            for attempt in self._attempts:
                warnings = list[str]()
                # Only HttpTransport reads the warnings that a server sends with an answer.
                if isinstance(transport, HttpTransport):
                    transport.on_warning = warnings.append
                await attempt.send(transport)
                self._note(attempt, "warned", warnings)

    def list_lines(self, _: PlatformView) -> Sequence[str]:
        """Return the answers of the API server as lines of the story."""
        return self._lines

    def _note(self, attempt: Attempt, outcome: str, messages: Sequence[str]) -> None:
        """Keep the answer to an attempt as lines of the story.

        Raises:
            Broken: the answer lacks the expected words.
        """
        if not any(attempt.words in message for message in messages):
            answer = f"the server's answer: {'; '.join(messages) or 'nothing'}"
            raise Broken(f"{attempt.description}, and {attempt.words!r} is not in {answer}")
        message_lines = (f"    {outcome}: {message}" for message in messages[:MOST_REASONS])
        self._lines += [attempt.description, *message_lines]
        if more := len(messages[MOST_REASONS:]):
            self._lines.append(f"    and {more} more")


def list_reasons(refusal: ApiError) -> list[str]:
    """Return why the server rejected a write: one line for each cause, or its message."""
    causes = [
        f"{cause.field}: {cause.message}" if cause.field else cause.message
        for cause in refusal.causes
    ]
    return causes or [refusal.message]


def expect_refusals(title: str, *attempts: Attempt, explanation: str = "") -> StoryStep:
    """Return a step in which the server must reject all attempts."""
    answers = _Answers(attempts)
    return StoryStep(
        title, (answers.list_lines,), actions=(answers.expect_refusals,), explanation=explanation
    )


def expect_warnings(title: str, *attempts: Attempt, explanation: str = "") -> StoryStep:
    """Return a step in which the server must accept all attempts with a warning."""
    answers = _Answers(attempts)
    return StoryStep(
        title, (answers.list_lines,), actions=(answers.expect_warnings,), explanation=explanation
    )
