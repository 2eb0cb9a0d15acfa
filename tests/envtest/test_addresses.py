"""IPAddresses come and go with the services that have them."""

from pathlib import Path
from typing import Any

import httpx

from envtest import ControlPlane
from tests.envtest.components import NETWORKS, named
from tests.envtest.conftest import admin_client

PATH = f"{NETWORKS}/ipaddresses"
SERVICES = "/api/v1/namespaces/default/services"
MERGE = {"Content-Type": "application/merge-patch+json"}


async def held(http: httpx.AsyncClient) -> dict[str, str]:
    """Return the names of services by the addresses that are theirs."""
    items = (await http.get(PATH)).json()["items"]
    return {one["metadata"]["name"]: one["spec"]["parentRef"]["name"] for one in items}


def service(name: str, **spec: Any) -> dict[str, Any]:
    return named(name, {"spec": {"ports": [{"port": 80}], **spec}})


async def test_an_address_is_told_as_the_real_server_tells_it(http: httpx.AsyncClient) -> None:
    body = (await http.get(f"{PATH}/10.96.0.1")).json()

    assert body["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    parent = {"resource": "services", "namespace": "default", "name": "kubernetes"}
    assert body["spec"] == {"parentRef": parent}


async def test_an_address_goes_with_its_service(http: httpx.AsyncClient) -> None:
    address = (await http.post(SERVICES, json=service("a"))).json()["spec"]["clusterIP"]
    with_it = await held(http)
    await http.delete(f"{SERVICES}/a")

    assert with_it == {"10.96.0.1": "kubernetes", address: "a"}
    assert await held(http) == {"10.96.0.1": "kubernetes"}


async def test_a_service_without_an_address_has_none(http: httpx.AsyncClient) -> None:
    await http.post(SERVICES, json=service("headless", clusterIP="None"))
    outside = {"type": "ExternalName", "externalName": "e.io"}
    await http.post(SERVICES, json=service("a"))
    own = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    patch = {"spec": {**dict.fromkeys(own), **outside}}
    changed = await http.patch(f"{SERVICES}/a", json=patch, headers=MERGE)

    assert changed.status_code == 200, changed.text
    assert await held(http) == {"10.96.0.1": "kubernetes"}


async def test_services_of_a_data_folder_keep_their_addresses(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with (
            ControlPlane.start(force_embedded=True, data=tmp_path) as plane,
            admin_client(plane) as http,
        ):
            await http.post(SERVICES, json=service("a"))
            seen.append((await http.get(PATH)).json()["items"])

    assert seen[0] == seen[1]
    assert len(seen[0]) == 2
