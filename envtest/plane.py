"""The interface of a running control plane, which is the same for all servers."""

import secrets
import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
import yaml
from aiohttp import ClientSession, TCPConnector

from envtest.keys import write_private_file
from envtest.settings import PlaneError
from envtest.yamlerrors import YAML_ERRORS

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# A server on a loaded machine needs half a minute; no test waits this long for a healthy one.
_ESTABLISHED_SECONDS = 120.0
_PAUSE_SECONDS = 0.05
# libyaml takes a tenth of the time, where PyYAML was built with it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


# Optional controllers of kube-controller-manager: the one that empties terminating namespaces, and
# the one that deletes objects whose owners are gone.
Controller = Literal["namespaces", "garbage"]


class RunningControlPlane(ABC):
    """A running Kubernetes API server.

    Attributes:
        url: its URL.
        kind: `embedded`, `binaries` or `existing`.
        controllers: the optional controllers that run.
    """

    kind: str

    def __init__(self, url: str) -> None:
        self.url = url
        self.controllers: frozenset[Controller] = frozenset()

    @abstractmethod
    def get_kubeconfig(self, user: str = "admin") -> str:
        """Return a self-contained kubeconfig of a user.

        Raises:
            PlaneError: there is no such user; add it by `add_user` first.
        """

    @abstractmethod
    async def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        """Add a user, whose permissions RBAC decides; return the user's kubeconfig.

        Raises:
            PlaneError: this control plane cannot create users.
        """

    @abstractmethod
    def create_admin_tls(self) -> ssl.SSLContext:
        """Return the TLS settings for the administrator's connections to the server."""

    @abstractmethod
    def build_admin_headers(self) -> dict[str, str]:
        """Return the headers that authenticate the administrator."""

    def write_kubeconfig(self, path: Path, user: str = "admin") -> Path:
        """Write a user's kubeconfig to a file that only its owner can read; return the path."""
        write_private_file(path, self.get_kubeconfig(user))
        return path

    async def install_crds(self, crds: Path | Iterable[dict[str, Any]]) -> None:
        """Create or replace CRDs and wait until they are served.

        Args:
            crds: the definitions, or a file or folder of YAML.

        Raises:
            PlaneError: the server rejects a CRD, or does not serve it in time.
        """
        definitions = read_crds(crds) if isinstance(crds, Path) else list(crds)
        connector = TCPConnector(ssl=self.create_admin_tls())
        async with ClientSession(
            self.url, connector=connector, headers=self.build_admin_headers()
        ) as session:
            for crd in definitions:
                await _create_or_replace(session, crd)
            for crd in definitions:
                await _wait_until_served(session, crd)


def read_crds(path: Path) -> list[dict[str, Any]]:
    """Read the CRDs of a YAML file, or of all YAML files in a folder.

    Raises:
        PlaneError: there are no CRDs, or a file is no YAML.
    """
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    definitions: list[dict[str, Any]] = []
    for file in files:
        try:
            documents = list(yaml.load_all(file.read_text(encoding="utf-8"), Loader=_LOADER))
        except (OSError, *YAML_ERRORS) as error:
            raise PlaneError(f"{file} cannot be read: {error}") from error
        definitions += [
            document
            for document in documents
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition"
        ]
    if not definitions:
        raise PlaneError(
            f"{path} contains no CustomResourceDefinition; name another file or folder"
        )
    return definitions


async def _create_or_replace(session: ClientSession, crd: dict[str, Any]) -> None:
    """Create a CRD, or replace an existing one.

    Raises:
        PlaneError: the server rejects it.
    """
    name = crd["metadata"]["name"]
    async with session.post(_CRDS, json=crd) as answer:
        if answer.status == 201:
            return
        body = await answer.json()
    if body.get("reason") != "AlreadyExists":
        raise PlaneError(f"CRD {name} was refused: {body.get('message')}")
    async with session.get(f"{_CRDS}/{name}") as answer:
        current = await answer.json()
    # The server accepts no update of a CRD without a resourceVersion.
    meta = {**crd["metadata"], "resourceVersion": current["metadata"]["resourceVersion"]}
    async with session.put(f"{_CRDS}/{name}", json={**crd, "metadata": meta}) as answer:
        if answer.status != 200:
            body = await answer.json()
            raise PlaneError(f"CRD {name} was refused: {body.get('message')}")


async def _wait_until_served(session: ClientSession, crd: dict[str, Any]) -> None:
    """Wait until a CRD is established and every served version answers a list.

    Raises:
        PlaneError: the names of the CRD are not accepted, or it is not served in time.
    """
    name, spec = crd["metadata"]["name"], crd["spec"]
    paths = [
        f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}?limit=1"
        for version in spec["versions"]
        if version["served"]
    ]
    deadline = anyio.current_time() + _ESTABLISHED_SECONDS
    while (obstacle := await _find_obstacle(session, name, paths)) is not None:
        if anyio.current_time() >= deadline:
            raise PlaneError(
                f"CRD {name} was not served within {_ESTABLISHED_SECONDS:.0f} seconds: {obstacle}"
            )
        await anyio.sleep(_PAUSE_SECONDS)


async def _find_obstacle(session: ClientSession, name: str, paths: list[str]) -> str | None:
    """Return why a CRD is not served yet; None if it is established and each path answers.

    Args:
        paths: one list of objects for each served version.

    Raises:
        PlaneError: its names are not accepted, so it would not be established later either.
    """
    async with session.get(f"{_CRDS}/{name}") as answer:
        body = await answer.json()
    conditions = (body.get("status") or {}).get("conditions") or ()
    by_type = {condition["type"]: condition for condition in conditions}
    names_accepted = by_type.get("NamesAccepted", {})
    if names_accepted.get("status") == "False":
        raise PlaneError(f"CRD {name} is not served: {names_accepted.get('message')}")
    established = by_type.get("Established", {})
    if established.get("status") != "True":
        return f"condition Established is {established.get('status', 'missing')}"
    for path in paths:
        async with session.get(path) as answer:
            if answer.status != 200:
                return f"GET {path} answers {answer.status}"
    return None


def create_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(24)
