"""A control plane that was started elsewhere: USE_EXISTING_CLUSTER with KUBECONFIG."""

import base64
import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import yaml
from typing_extensions import override

from envtest.certs import KeyPair, create_client_tls
from envtest.kubeconfig import build_kubeconfig
from envtest.plane import RunningControlPlane
from envtest.settings import PlaneError
from envtest.yamlerrors import YAML_ERRORS


class ExistingControlPlane(RunningControlPlane):
    """A running cluster; the current user of its kubeconfig is the administrator."""

    kind = "existing"

    def __init__(self, url: str, authority: bytes, user: dict[str, Any]) -> None:
        super().__init__(url)
        # A complete cluster runs kube-controller-manager, which has both controllers.
        self.controllers = frozenset(("namespaces", "garbage"))
        self._authority = authority
        self._token = str(user.get("token") or "")
        certificate = _read_credential(user, "client-certificate")
        key = _read_credential(user, "client-key")
        self._pair = KeyPair(certificate, key) if certificate and key else None
        if not self._token and self._pair is None:
            raise PlaneError("the kubeconfig's user has neither a token nor a client certificate")

    @classmethod
    def from_environment(cls) -> Self:
        """Read the kubeconfig that KUBECONFIG names.

        Raises:
            PlaneError: it cannot be read, or lacks a server, a user or credentials.
        """
        path = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
            context = _find_entry(document, "contexts", document["current-context"])["context"]
            cluster = _find_entry(document, "clusters", context["cluster"])["cluster"]
            user = _find_entry(document, "users", context["user"])["user"]
            return cls(cluster["server"], _read_credential(cluster, "certificate-authority"), user)
        except (OSError, *YAML_ERRORS, TypeError, StopIteration) as error:
            raise PlaneError(
                f"{path} is not a usable kubeconfig ({error!r}); set KUBECONFIG"
            ) from error

    @override
    def get_kubeconfig(self, user: str = "admin") -> str:
        """Return a kubeconfig with the credentials of the current user, under the name `user`."""
        return build_kubeconfig(
            self.url, self._authority, user, token=self._token, certificate=self._pair
        )

    @override
    async def add_user(self, name: str, groups: Sequence[str] = ()) -> str:
        """Refuse to create a user, because this cluster was not started here.

        Raises:
            PlaneError: always.
        """
        raise PlaneError(f"user {name} cannot be created in a cluster that was not started here")

    @override
    def create_admin_tls(self) -> ssl.SSLContext:
        return create_client_tls(self._authority, self._pair)

    @override
    def build_admin_headers(self) -> dict[str, str]:
        # A user without a token authenticates by the client certificate of `create_admin_tls`.
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


def _find_entry(document: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    """Return the entry of this name in a list of a kubeconfig; StopIteration if there is none."""
    entry: dict[str, Any] = next(
        candidate for candidate in document[section] if candidate["name"] == name
    )
    return entry


def _read_credential(owner: dict[str, Any], name: str) -> bytes:
    """Return the decoded field NAME-data, or the file in field NAME; empty without both."""
    if owner.get(f"{name}-data"):
        return base64.b64decode(owner[f"{name}-data"])
    return Path(owner[name]).read_bytes() if owner.get(name) else b""
