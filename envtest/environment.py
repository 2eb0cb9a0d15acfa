"""Start a control plane: the one that environment variables name, or else the embedded server."""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from typing_extensions import override

from envtest.access.tokens import format_token_line
from envtest.binaries import run_real_control_plane
from envtest.embedded import ADMIN, EmbeddedServer, serve
from envtest.existing import ExistingControlPlane
from envtest.plane import Controller
from envtest.plane import RunningControlPlane as Plane
from envtest.server.call import User
from envtest.settings import read_settings


class EmbeddedControlPlane(Plane):
    """The embedded server in the caller's own process and event loop."""

    kind = "embedded"

    def __init__(
        self, server: EmbeddedServer, controllers: frozenset[Controller] = frozenset()
    ) -> None:
        super().__init__(server.url)
        self.server = server
        self.controllers = controllers

    @override
    def get_kubeconfig(self, user: str = ADMIN) -> str:
        """Return a self-contained kubeconfig of a user, who is created on first use."""
        return self.server.get_kubeconfig(user)

    @override
    async def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        return self.server.get_kubeconfig(name, tuple(groups))

    @override
    def create_admin_tls(self) -> ssl.SSLContext:
        authority = self.server.authority.pair.certificate.decode()
        return ssl.create_default_context(cadata=authority)

    @override
    def build_admin_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.server.get_or_create_token(ADMIN)}"}


class ControlPlane(Plane):
    """A Kubernetes API server for tests; `start` chooses which one runs."""

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        *,
        data: Path | None = None,
        listen: str = "127.0.0.1:0",
        tokens: Mapping[str, User] | None = None,
        force_embedded: bool = False,
        namespace_controller: bool = False,
        garbage_collector: bool = False,
    ) -> AsyncIterator[Plane]:
        """Run a control plane for as long as the context lasts.

        If the environment names an existing cluster, and `force_embedded` is False, that cluster
        is used, and all other arguments are ignored.

        Args:
            data: the folder for objects; None deletes them at the end.
            listen: address and port; port 0 takes a free one.
            tokens: users by their bearer tokens; None for none.
            force_embedded: whether to use the embedded server, whatever the environment says.
            namespace_controller: whether to empty and delete terminating namespaces. With
                binaries this needs kube-controller-manager; `controllers` of the result says
                whether it runs.
            garbage_collector: whether to delete objects whose owners are gone. With binaries this
                needs kube-controller-manager as well.

        Raises:
            PlaneError: the control plane that the environment names cannot be started.
            DiskError: the data folder cannot be used.
            ListenError: the address cannot be listened on.
        """
        settings = read_settings({} if force_embedded else None)
        users_by_token = dict(tokens or {})
        choices: dict[Controller, bool] = {
            "namespaces": namespace_controller,
            "garbage": garbage_collector,
        }
        controllers = frozenset(name for name, is_enabled in choices.items() if is_enabled)
        if settings.kind == "existing":
            yield ExistingControlPlane.from_environment()
        elif settings.kind == "binaries":
            token_file = "".join(
                format_token_line(token, user) for token, user in users_by_token.items()
            )
            async with run_real_control_plane(
                settings, data, listen=listen, tokens=token_file, controllers=controllers
            ) as plane:
                yield plane
        else:
            async with serve(
                data=data,
                listen=listen,
                tokens=users_by_token,
                namespace_controller=namespace_controller,
                garbage_collector=garbage_collector,
            ) as server:
                yield EmbeddedControlPlane(server, controllers)
