"""The objects that MetalLB's controller needs in its cluster since 0.16, if no kubelet runs it.

At its start it reads its own Pod, which becomes the owner of the ConfigurationState. It serves its
metrics over TLS to users whom its API server authenticates by a token and RBAC allows to read
them. So this module creates the Pod, and a service account with the permission to read metrics.
"""

import base64
import ssl
from dataclasses import dataclass
from typing import Any

import yaml
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from envtest.certs import KeyPair, create_client_tls
from envtest.settings import PlaneError
from envtest.yamlerrors import YAML_ERRORS

POD = "controller"
"""The name of the Pod, which the controller reads from METALLB_POD_NAME."""
READER = "metallb-metrics-reader"
"""The service account that reads metrics, its role and its binding."""
_ACCESS = "rbac.authorization.k8s.io"
_TOKEN_SECONDS = 24 * 3_600
_ANSWER_TIMEOUT = ClientTimeout(total=30)


@dataclass(frozen=True, slots=True)
class _ApiLogin:
    """The connection settings of a kubeconfig's user."""

    url: str
    tls: ssl.SSLContext
    headers: dict[str, str]


async def create_metallb_access(kubeconfig: str, namespace: str) -> str:
    """Create the controller's Pod, and an account that reads its metrics; return its token.

    Existing objects stay unchanged.

    Args:
        kubeconfig: a self-contained kubeconfig of an administrator of the API server.
        namespace: the namespace of MetalLB, which must exist.

    Raises:
        PlaneError: the kubeconfig cannot be read, or the API server refuses an object.
    """
    login = _read_login(kubeconfig)
    connector = TCPConnector(ssl=login.tls)
    try:
        async with ClientSession(
            login.url, connector=connector, headers=login.headers, timeout=_ANSWER_TIMEOUT
        ) as session:
            for path, body in _build_objects(namespace):
                await _create(session, path, body)
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{READER}/token"
            request = {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
            answer = await _create(session, path, request)
    except ClientError as error:
        raise PlaneError(f"MetalLB's API server {login.url} does not answer: {error}") from error
    token: str = answer["status"]["token"]
    return token


def _build_objects(namespace: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects to create, each with the path of its collection."""
    name, namespace_path = {"name": READER}, f"/api/v1/namespaces/{namespace}"
    pod = {
        "metadata": {"name": POD},
        "spec": {"containers": [{"name": "controller", "image": "controller"}]},
    }
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    binding = {
        "metadata": name,
        "roleRef": {"apiGroup": _ACCESS, "kind": "ClusterRole", "name": READER},
        "subjects": [{"kind": "ServiceAccount", "name": READER, "namespace": namespace}],
    }
    return [
        (f"{namespace_path}/pods", pod),
        (f"{namespace_path}/serviceaccounts", {"metadata": name}),
        (f"/apis/{_ACCESS}/v1/clusterroles", {"metadata": name, "rules": rules}),
        (f"/apis/{_ACCESS}/v1/clusterrolebindings", binding),
    ]


async def _create(session: ClientSession, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Create an object unless it exists; return the answer.

    Raises:
        PlaneError: the API server rejects the object.
    """
    async with session.post(path, json=body) as answer:
        result: dict[str, Any] = await answer.json()
    if answer.status == 201 or result.get("reason") == "AlreadyExists":
        return result
    raise PlaneError(f"an object for MetalLB was refused at {path}: {result.get('message')}")


def _read_login(kubeconfig: str) -> _ApiLogin:
    """Return the connection settings of the first user and cluster of a kubeconfig.

    Raises:
        PlaneError: the kubeconfig is not self-contained.
    """
    try:
        document = yaml.safe_load(kubeconfig)
        cluster = document["clusters"][0]["cluster"]
        user = document["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"])
        pair = None
        if "client-certificate-data" in user:
            data = (user["client-certificate-data"], user["client-key-data"])
            pair = KeyPair(*map(base64.b64decode, data))
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        return _ApiLogin(cluster["server"], create_client_tls(authority, pair), headers)
    except (*YAML_ERRORS, LookupError, TypeError, ssl.SSLError) as error:
        raise PlaneError(
            "MetalLB's kubeconfig needs a cluster and a user with everything inline: give that of"
            f" a control plane ({type(error).__name__}: {error})"
        ) from error
