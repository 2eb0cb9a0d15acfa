"""The route of one event: our modules that run from a watch's bytes to the status write.

ARCHITECTURE.md describes that route. The event is the creation of a request without our
finalizer: an IPAllocation, a claim on a NetworkPool, or a claim on an in-cluster pool. A
profiler records each function of ours that is called until the API server has answered the write
of the range to the request.

All controllers run, wired as `butler-ipam run` wires them. The modules in LISTENERS also process
the event, but are not on the route to the write.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import httpx
import pytest
from typing_extensions import override

import controller
from controller.clock import SystemClock
from controller.config import connect
from controller.manager import Manager
from controller.options import ManagerOptions
from controller.transport import NO_QUERY, Transport
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import names
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi.crds import build_pool_crds
from reconcilers.wiring import assemble
from tests.contract.product import install_kinds
from tests.polling import SECONDS

ROOT = Path(controller.__file__).parent.parent
PACKAGES = ("allocator", "controller", "reconcilers")
LISTENERS = {
    "controller/cacheparts.py": "which allocations orphans are looked for among",
    "reconcilers/metrics/objectgauges.py": "what metrics show of pools and allocations",
    "reconcilers/networkpool/livelists.py": "which pools wait for a LIST: none does",
    "reconcilers/networkpool/owners.py": "who owns it, for the orphan collector",
    "reconcilers/tenantcluster/allocations/poolchoice.py": "what pools have promised to clusters",
    "reconcilers/tenantcluster/allocations/requests.py": "which requests are under way",
}
"""Modules that also process the event, and the information that each keeps."""
NAMESPACE = names.DEFAULT_NAMESPACE
HOME = f"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}"
CLAIMS = f"/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/ipaddressclaims"
IP_POOLS = f"/apis/ipam.cluster.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/inclusterippools"
EVENT_MARK = b'"name":"one"'

Json = dict[str, Any]
RESUME_BITS = 3
"""A mask of the operand of RESUME: not zero if a coroutine or a generator resumes."""


@dataclass(frozen=True)
class Request:
    """A request whose event is followed, and the pool that serves it.

    Args:
        section: the heading in ARCHITECTURE.md of what is different for this kind of request.
        collection: the path of the requests.
        body: the request.
        pool_collection: the path of the pools.
        is_served: returns whether the answer to a status write shows that the request is served.
        integration: the integrations that are on.
    """

    section: str
    collection: str
    body: Json
    pool_collection: str
    pool: Json
    is_served: Callable[[Json], bool]
    integration: tuple[str, ...] = ()


NETWORK_POOL = {
    "apiVersion": names.API_VERSION,
    "kind": "NetworkPool",
    "metadata": {"name": "lab"},
    "spec": {"cidr": "10.40.0.0/24"},
}


def make_claim(group: str, kind: str) -> Json:
    """Return the claim `one` on the pool `lab` of a kind."""
    return {
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
        "kind": "IPAddressClaim",
        "metadata": {"name": "one"},
        "spec": {"poolRef": {"apiGroup": group, "kind": kind, "name": "lab"}},
    }


ALLOCATION_ROUTE = Request(
    "An IPAllocation",
    f"{HOME}/ipallocations",
    body={
        "apiVersion": names.API_VERSION,
        "kind": "IPAllocation",
        "metadata": {"name": "one"},
        "spec": {
            "poolRef": {"name": "lab"},
            "tenantClusterRef": {"name": "a", "namespace": "team"},
            "type": "nodes",
            "count": 3,
        },
    },
    pool_collection=f"{HOME}/networkpools",
    pool=NETWORK_POOL,
    is_served=lambda allocation: allocation["status"].get("phase") == "Allocated",
)
CLAIM_ROUTE = Request(
    "A claim on a NetworkPool",
    CLAIMS,
    body=make_claim(names.GROUP, "NetworkPool"),
    pool_collection=f"{HOME}/networkpools",
    pool=NETWORK_POOL,
    is_served=lambda claim: "addressRef" in claim["status"],
    integration=("clusterapi",),
)
IN_CLUSTER_ROUTE = replace(
    CLAIM_ROUTE,
    section="A claim on an in-cluster pool",
    body=make_claim("ipam.cluster.x-k8s.io", "InClusterIPPool"),
    pool_collection=IP_POOLS,
    pool={
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2",
        "kind": "InClusterIPPool",
        "metadata": {"name": "lab"},
        "spec": {"addresses": ["10.40.0.0/24"], "prefix": 24},
    },
)


class Reached:
    """The modules and functions of ours that ran after the event's bytes arrived."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        """The module of each call, in order, with repetitions."""
        self.functions: dict[str, dict[str, None]] = defaultdict(dict)
        """The functions of each module, both in the order of their first calls."""

    def add(self, module: str, function: str) -> None:
        """Record that a function of a module ran."""
        self.modules.append(module)
        self.functions[module].setdefault(function)


class ServedNotifier(Transport):
    """A transport that calls `written` once a status write has served the request `one`."""

    def __init__(self, inner: Transport, request: Request) -> None:
        self._inner = inner
        self._status = f"{request.collection}/one/status"
        self._is_served = request.is_served
        self.written: Callable[[], None] = lambda: None

    @override
    async def request(self, method: str, path: str, **options: Any) -> bytes:
        answer = await self._inner.request(method, path, **options)
        if (method, path) == ("PATCH", self._status) and self._is_served(json.loads(answer)):
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
def profile_route(reached: Reached, event_mark: bytes) -> Iterator[None]:
    """Record each function of ours that runs after the event's bytes arrived.

    A function that starts is recorded when it is called. A coroutine or a generator that was
    suspended is recorded when it returns or yields, because its callers are resumed before it.

    Args:
        reached: where the functions are recorded.
        event_mark: bytes that are in the event, and in nothing that arrives before it.
    """
    resumed_frames: set[FrameType] = set()

    def record_frame(frame: FrameType, event: str, value: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in PACKAGES:
            return
        if event == "call" and code.co_code[frame.f_lasti + 1] & RESUME_BITS:
            resumed_frames.add(frame)
        elif event == "call" or (event == "return" and frame in resumed_frames):
            resumed_frames.discard(frame)
            if reached.modules or (isinstance(value, bytes) and event_mark in value):
                reached.add(str(path.relative_to(ROOT)), code.co_qualname)

    previous_profiler = sys.getprofile()
    sys.setprofile(record_frame)
    try:
        yield
    finally:
        sys.setprofile(previous_profiler)


@asynccontextmanager
async def run_all_controllers(transport: Transport, settings: Settings) -> AsyncIterator[None]:
    """Run the controllers as `butler-ipam run` does."""
    clock = SystemClock()
    manager = Manager(transport, clock=clock, options=ManagerOptions())
    tenants = assemble(manager, clock, settings)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        yield
        group.cancel_scope.cancel()
    await tenants.aclose()


async def create_object(admin: httpx.AsyncClient, collection: str, body: Json) -> None:
    """Create an object."""
    answer = await admin.post(collection, json=body)
    assert answer.status_code == 201, answer.text


async def serve_another_request(admin: httpx.AsyncClient, request: Request) -> None:
    """Serve another request first, so that the pool's initial work is not recorded."""
    another_request = request.body | {"metadata": {"name": "first"}}
    await create_object(admin, request.collection, another_request)
    with anyio.fail_after(SECONDS):
        while True:
            body = (await admin.get(f"{request.collection}/first")).json()
            if "status" in body and request.is_served(body):
                return


@pytest.mark.parametrize(
    "request_",
    [ALLOCATION_ROUTE, CLAIM_ROUTE, IN_CLUSTER_ROUTE],
    ids=["allocation", "claim", "in-cluster"],
)
async def test_an_event_passes_the_modules_in_architecture_md_in_that_order(
    request_: Request, plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await install_kinds(plane, "clusterapi", build_pool_crds())
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
    await create_object(admin, request_.pool_collection, request_.pool)
    inner_transport = await connect(plane.write_kubeconfig(tmp_path / "kubeconfig"))
    transport, reached = ServedNotifier(inner_transport, request_), Reached()
    async with run_all_controllers(transport, Settings(integration=request_.integration)):
        await serve_another_request(admin, request_)
        written = anyio.Event()
        with profile_route(reached, EVENT_MARK), anyio.fail_after(SECONDS):

            def stop_profiling() -> None:
                sys.setprofile(None)
                written.set()

            transport.written = stop_profiling
            await create_object(admin, request_.collection, request_.body)
            await written.wait()
    await transport.aclose()
    sys.stdout.write("\n".join([*describe_route(reached), ""]))
    assert find_missing_modules(list_described_modules(request_.section), reached.modules) == []


def describe_route(reached: Reached) -> list[str]:
    """Return lines for people: the modules and functions on the route, then the listeners."""
    on_route = {
        module: called for module, called in reached.functions.items() if module not in LISTENERS
    }
    listeners = [
        f"listener {module}: {LISTENERS[module]}"
        for module in sorted({*reached.functions} & {*LISTENERS})
    ]
    counts = f"{len(on_route)} modules, {sum(map(len, on_route.values()))} functions"
    route = [f"{module}: {', '.join(functions)}" for module, functions in on_route.items()]
    return [counts, *route, *listeners]


def find_missing_modules(expected: Sequence[str], reached: Iterable[str]) -> list[str]:
    """Return the expected modules from the first one that is not reached in order."""
    later = iter(reached)
    for number, module in enumerate(expected):
        if module not in later:
            return list(expected[number:])
    return []


def list_described_modules(heading: str) -> list[str]:
    """Return the modules that ARCHITECTURE.md names on the route, for one kind of request.

    Args:
        heading: the heading of the part about that kind; the part above the first heading is
            about all kinds.
    """
    content = (ROOT / "ARCHITECTURE.md").read_text()
    section = content.partition("## The route of one event")[2].partition("\n## ")[0]
    common, *parts = section.split("\n### ")
    [of_kind] = [part for part in parts if part.startswith(f"{heading}\n")]
    return re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w/]+\.py)`", common + of_kind)
