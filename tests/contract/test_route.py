"""The route of one event: which of our modules run from a watch's bytes to the status write.

ARCHITECTURE.md walks that route. The event is the creation of an IPAllocation without our
finalizer, as `kubectl create` makes one. It passes two controllers: that of IPAllocations adds the
finalizer, that of NetworkPools hands out the range. A profiler notes each function of ours that is
called until the API server has answered the write of the range.

All controllers run, wired as `butler-ipam run` wires them. Of the others some hear of the event,
too, and note something; they are named here, and are not on the way to the write.
"""

import re
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import httpx
from typing_extensions import override

import controller
from controller.clock import SystemClock
from controller.config import connect
from controller.manager import Manager
from controller.options import ManagerOptions
from controller.transport import NO_QUERY, Transport
from envtest.plane import ControlPlane as Plane
from reconcilers.api import names
from reconcilers.api.crd import crds
from reconcilers.configuration.settings import Settings
from reconcilers.wiring import assemble

ROOT = Path(controller.__file__).parent.parent
PACKAGES = ("allocator", "controller", "reconcilers")
LISTENERS = {
    "controller/cacheparts.py": "which allocations orphans are looked for among",
    "reconcilers/metrics/objectgauges.py": "what metrics show of pools and allocations",
    "reconcilers/integrations/core/holders.py": "what integrations hold of pools: none runs",
    "reconcilers/networkpool/livelists.py": "which pools wait for a LIST: none does",
    "reconcilers/networkpool/owners.py": "who owns it, for the orphan collector",
    "reconcilers/tenantcluster/allocations/poolchoice.py": "what pools have promised to clusters",
    "reconcilers/tenantcluster/allocations/requests.py": "which requests are under way",
}
"""What else hears of the event, and what each keeps of it."""
NAMESPACE = names.DEFAULT_NAMESPACE
HOME = f"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}"
STATUS = f"{HOME}/ipallocations/one/status"
LIMIT = 60.0
CREATED = b'"name":"one"'

RESUMED = 3
"""The bits of the operand of RESUME that are set when a coroutine or a generator goes on."""


class Reached:
    """What of ours was reached after the event's bytes arrived."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        """As often as they were reached, in order."""
        self.functions: dict[str, dict[str, None]] = defaultdict(dict)
        """By module; modules and functions in the order in which they were first reached."""

    def add(self, module: str, function: str) -> None:
        """Note that a function was reached."""
        self.modules.append(module)
        self.functions[module].setdefault(function)


class Observed(Transport):
    """A transport that calls `written` when the status of an allocation was written."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.written: Callable[[], None] = lambda: None

    @override
    async def request(self, method: str, path: str, **options: Any) -> bytes:
        answer = await self._inner.request(method, path, **options)
        if (method, path) == ("PATCH", STATUS) and b'"Allocated"' in answer:
            self.written()
        return answer

    @override
    def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(path, query=query, accept=accept)

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


@contextmanager
def profiled(reached: Reached, sent: bytes) -> Iterator[None]:
    """Note each function of ours that is reached, by module, once the event's bytes arrived.

    A function that starts is reached when it is called. A coroutine or a generator that waited
    until then is reached when it hands something on, as those that wait for it are resumed first.

    Args:
        reached: is filled.
        sent: bytes that are in the event, and in nothing that arrives before it.
    """
    waited: set[FrameType] = set()

    def note(frame: FrameType, event: str, value: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in PACKAGES:
            return
        if event == "call" and code.co_code[frame.f_lasti + 1] & RESUMED:
            waited.add(frame)
        elif event == "call" or (event == "return" and frame in waited):
            waited.discard(frame)
            if reached.modules or (isinstance(value, bytes) and sent in value):
                reached.add(str(path.relative_to(ROOT)), code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


@asynccontextmanager
async def all_controllers(transport: Transport) -> AsyncIterator[None]:
    """Run the controllers as `butler-ipam run` does."""
    clock = SystemClock()
    manager = Manager(transport, clock=clock, options=ManagerOptions())
    tenants = assemble(manager, clock, Settings())
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        yield
        group.cancel_scope.cancel()
    await tenants.aclose()


async def create(admin: httpx.AsyncClient, path: str, kind: str, body: dict[str, Any]) -> None:
    """Create an object of ours."""
    whole = {"apiVersion": names.API_VERSION, "kind": kind} | body
    answer = await admin.post(f"{HOME}/{path}", json=whole)
    assert answer.status_code == 201, answer.text


async def pool_is_ready(admin: httpx.AsyncClient) -> None:
    """Wait until the pool has been served once: what it does but once is no part of the route."""
    with anyio.fail_after(LIMIT):
        while True:
            pool = (await admin.get(f"{HOME}/networkpools/lab")).json()
            found = pool.get("status", {}).get("conditions", [])
            if any((one["type"], one["status"]) == ("Ready", "True") for one in found):
                return


async def test_an_event_passes_the_modules_that_the_document_names_in_their_order(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await plane.install_crds(crds())
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
    pool = {"metadata": {"name": "lab"}, "spec": {"cidr": "10.40.0.0/24"}}
    await create(admin, "networkpools", "NetworkPool", pool)
    spec = {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": "a", "namespace": "team"},
        "type": "nodes",
        "count": 3,
    }
    transport = Observed(await connect(plane.write_kubeconfig(tmp_path / "kubeconfig")))
    reached = Reached()
    async with all_controllers(transport):
        await pool_is_ready(admin)
        written = anyio.Event()
        with profiled(reached, CREATED), anyio.fail_after(LIMIT):

            def stop() -> None:
                sys.setprofile(None)
                written.set()

            transport.written = stop
            body = {"metadata": {"name": "one"}, "spec": spec}
            await create(admin, "ipallocations", "IPAllocation", body)
            await written.wait()
    await transport.aclose()
    heard = [
        f"beside it {module}: {LISTENERS[module]}"
        for module in sorted({*reached.functions} & {*LISTENERS})
    ]
    on_route = {
        module: called for module, called in reached.functions.items() if module not in LISTENERS
    }
    route = [f"{module}: {', '.join(functions)}" for module, functions in on_route.items()]
    counts = f"{len(on_route)} modules, {sum(map(len, on_route.values()))} functions"
    sys.stdout.write("\n".join([counts, *route, *heard, ""]))
    assert missing(described(), reached.modules) == []


def missing(wanted: Sequence[str], reached: Iterable[str]) -> list[str]:
    """Return the rest of the wanted modules from the first that was not reached after the last."""
    later = iter(reached)
    for number, module in enumerate(wanted):
        if module not in later:
            return list(wanted[number:])
    return []


def described() -> list[str]:
    """Return the modules that ARCHITECTURE.md names on the route."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("## The route of one event")[2].partition("\n## ")[0]
    return re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w/]+\.py)`", section)
