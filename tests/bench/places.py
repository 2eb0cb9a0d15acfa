"""Where controllers are measured: a control plane of their own each, real or embedded."""

import os
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import Any

import yaml
from aiohttp import ClientSession, TCPConnector

from envtest import User
from envtest.access.tokens import format_token_line
from envtest.binaries import run_real_control_plane
from envtest.plane import RunningControlPlane as Plane
from envtest.settings import read_settings
from reconcilers.api.crd import build_crds
from tests.bench.bench_envtest import server as serving
from tests.bench.driver import LONGEST_EVENT
from tests.bench.processes import find_process
from tests.hygiene import list_children

ROOT = Path(__file__).parents[2]
REAL = ROOT / ".real"
_TOKEN = "bench-token"
_ADMINISTRATOR = User("bench", ("system:masters",))
_EXTENSIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(slots=True)
class Access:
    """How a controller reaches the API server."""

    url: str
    token: str
    authority: str


@dataclass(frozen=True, slots=True)
class Place:
    """A control plane that serves our kinds.

    Attributes:
        access: how controllers reach it.
        session: the driver's client of it, as its administrator.
        server: process number of the API server.
        counts: whether its metrics count the writes.
        store: process number of etcd, or None if there is none.
    """

    access: Access
    session: ClientSession
    server: int
    counts: bool
    store: int | None = None


Definitions = Sequence[dict[str, Any]]
Open = Callable[[], AbstractAsyncContextManager[Place]]


@asynccontextmanager
async def start_real(assets: Path, more: Definitions = ()) -> AsyncIterator[Place]:
    """Start etcd and kube-apiserver.

    Args:
        assets: the folder of the programs.
        more: definitions to install beside ours.

    Raises:
        PlaneError: one of them does not start.
    """
    settings = read_settings({**os.environ, "KUBEBUILDER_ASSETS": str(assets)})
    before = list_children()
    tokens = format_token_line(_TOKEN, _ADMINISTRATOR)
    async with run_real_control_plane(
        settings, None, listen="127.0.0.1:0", tokens=tokens
    ) as plane:
        started = list_children() - before
        server, store = find_process("kube-apiserver", started), find_process("etcd", started)
        await plane.install_crds([*build_crds(), *more])
        access = Access(plane.url, _TOKEN, _read_authority(plane))
        async with connect_client(plane) as session:
            yield Place(access, session, server, counts=True, store=store)


@asynccontextmanager
async def start_embedded(more: Definitions = ()) -> AsyncIterator[Place]:
    """Start the embedded API server, in a process of its own.

    Args:
        more: definitions to install beside ours.
    """
    with serving() as server:
        access = Access(server.url, server.token, server.authority)
        headers = {"Authorization": f"Bearer {server.token}"}
        async with _make_session(server.url, server.tls, headers) as session:
            for definition in [*build_crds(), *more]:
                async with session.post(_EXTENSIONS, json=definition) as answer:
                    answer.raise_for_status()
            yield Place(access, session, server.process.pid, counts=False)


def find_real_programs() -> Path | None:
    """Return the folder of etcd and kube-apiserver, or None if they are not there."""
    kubebuilder_assets = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(kubebuilder_assets) if kubebuilder_assets else REAL / "newest"
    there = all((folder / name).exists() for name in ("etcd", "kube-apiserver"))
    return folder if there else None


def list_places(more: Definitions = ()) -> dict[str, Open]:
    """Return how the control planes of this machine are opened, by name.

    Args:
        more: definitions to install beside ours.
    """
    places: dict[str, Open] = {"embedded": partial(start_embedded, more)}
    assets = find_real_programs()
    if assets is not None:
        places["real"] = partial(start_real, assets, more)
    return places


@asynccontextmanager
async def connect_client(plane: Plane) -> AsyncIterator[ClientSession]:
    """Give the driver's client of a control plane, as its administrator."""
    async with _make_session(
        plane.url, plane.create_admin_tls(), plane.build_admin_headers()
    ) as session:
        yield session


def _make_session(url: str, tls: SSLContext, headers: dict[str, str]) -> ClientSession:
    connector = TCPConnector(ssl=tls, limit=0)
    return ClientSession(url, connector=connector, headers=headers, read_bufsize=LONGEST_EVENT)


def _read_authority(plane: Plane) -> str:
    cluster = yaml.safe_load(plane.get_kubeconfig())["clusters"][0]["cluster"]
    return b64decode(cluster["certificate-authority-data"]).decode()
