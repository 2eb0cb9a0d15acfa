"""Objects of metal3 and Cluster API on a server, as a test creates, changes and waits for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.polling import keep_looking, until

METAL3 = "ipam.metal3.io"
IPAM = "ipam.cluster.x-k8s.io"
PATHS = {
    "IPPool": f"{METAL3}/v1alpha1/ippools",
    "IPClaim": f"{METAL3}/v1alpha1/ipclaims",
    "IPAddress": f"{METAL3}/v1alpha1/ipaddresses",
    "IPAddressClaim": f"{IPAM}/v1beta2/ipaddressclaims",
    "IPAddress of Cluster API": f"{IPAM}/v1beta2/ipaddresses",
    "Cluster": "cluster.x-k8s.io/v1beta2/clusters",
}
CLAIM_KINDS = ("IPClaim", "IPAddressClaim")
"""The kind of claims of metal3, and that of Cluster API."""
ADDRESS_KINDS = {"IPClaim": "IPAddress", "IPAddressClaim": "IPAddress of Cluster API"}
FINALIZERS = {
    "IPPool": f"ippool.{METAL3}",
    "IPClaim": f"ipclaim.{METAL3}",
    "IPAddress": f"ipaddress.{METAL3}",
    "IPAddressClaim": f"{METAL3}/ipaddressclaim",
    "IPAddress of Cluster API": f"{METAL3}/ipaddress",
}
PAUSED = {"cluster.x-k8s.io/paused": "true"}
Body = dict[str, Any]


def get_status(body: Body | None) -> Body:
    """Return an object's status; empty while nobody has written one."""
    return (body or {}).get("status") or {}


def get_address_name(claim: Body) -> str:
    """Return the name of the IPAddress in the status of a claim of either kind; empty for none."""
    reference = get_status(claim).get("address") or get_status(claim).get("addressRef") or {}
    return str(reference.get("name", ""))


def get_problem(claim: Body) -> str:
    """Return the error that the status of a claim of either kind shows; empty for none."""
    if claim["kind"] == "IPClaim":
        return str(get_status(claim).get("errorMessage", ""))
    conditions = get_status(claim).get("conditions") or []
    ready: Body = next((entry for entry in conditions if entry["type"] == "Ready"), {})
    return str(ready.get("message", "")) if ready.get("status") == "False" else ""


@dataclass
class Metal3Lab:
    """A namespace of a server; the methods create, read and wait for objects in it.

    Args:
        admin: the administrator's client.
    """

    admin: httpx.AsyncClient
    namespace: str

    def build_path(self, kind: str, name: str = "") -> str:
        """Return the URL path of an object, or of the collection of a kind if `name` is empty."""
        version, _, plural = PATHS[kind].rpartition("/")
        path = f"/apis/{version}/namespaces/{self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    async def create(self, kind: str, name: str, spec: Body, **metadata: Any) -> Body:
        """Create an object."""
        body = {
            "apiVersion": PATHS[kind].rpartition("/")[0],
            "kind": kind.partition(" ")[0],
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
        answer = await self.admin.post(self.build_path(kind), json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def find(self, kind: str, name: str) -> Body | None:
        """Return an object, None if there is none."""
        answer = await self.admin.get(self.build_path(kind, name))
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def list_objects(self, kind: str) -> list[Body]:
        """Return all objects of a kind in the namespace."""
        answer = await self.admin.get(self.build_path(kind))
        assert answer.status_code == 200, answer.text
        return [{"kind": kind, **item} for item in answer.json()["items"]]

    async def patch(
        self, kind: str, name: str, patch: Mapping[str, Any], subresource: str = ""
    ) -> Body:
        """Apply a merge patch to an object, or to a subresource of it; return the object."""
        answer = await self.admin.patch(
            self.build_path(kind, name) + (f"/{subresource}" if subresource else ""),
            json=patch,
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        answer = await self.admin.delete(self.build_path(kind, name))
        assert answer.status_code in {200, 202, 404}, answer.text

    async def until(self, kind: str, name: str, holds: Callable[[Body], bool]) -> Body:
        """Wait until an object exists and `holds` is true of it; return the object."""
        seen = await until(
            lambda: self.find(kind, name), lambda body: body is not None and holds(body)
        )
        assert seen is not None
        return seen

    async def wait_until_gone(self, kind: str, name: str) -> None:
        """Wait until an object is gone."""
        await until(lambda: self.find(kind, name), lambda body: body is None)

    async def create_pool(self, name: str, *entries: Body, **spec: Any) -> Body:
        """Create a pool with these entries of spec.pools and these other fields of its spec."""
        settings = {"namePrefix": name, "prefix": 24, **spec}
        return await self.create("IPPool", name, {**settings, "pools": list(entries)})

    async def create_claim(
        self, name: str, pool: str, kind: str = "IPClaim", requested: str = "", **metadata: Any
    ) -> Body:
        """Create a claim of either kind; its annotation requests the address `requested`."""
        if requested:
            annotations = {**metadata.pop("annotations", {}), "ipAddress": requested}
            metadata["annotations"] = annotations
        if kind == "IPClaim":
            spec: Body = {"pool": {"name": pool, "namespace": self.namespace}}
        else:
            spec = {"poolRef": {"apiGroup": METAL3, "kind": "IPPool", "name": pool}}
        return await self.create(kind, name, spec, **metadata)

    async def wait_until_served(self, name: str, kind: str = "IPClaim") -> str:
        """Wait until a claim has its address; return the address."""
        claim = await self.until(kind, name, lambda body: bool(get_address_name(body)))
        assert get_problem(claim) == ""
        address = await self.find(ADDRESS_KINDS[kind], get_address_name(claim))
        assert address is not None, "the name in the status leads to an IPAddress"
        return str(address["spec"]["address"])

    async def wait_until_refused(self, name: str, message: str, kind: str = "IPClaim") -> Body:
        """Wait until a claim without address shows an error; return the claim."""
        return await self.until(
            kind, name, lambda body: get_problem(body) == message and not get_address_name(body)
        )

    async def check_waiting(self, name: str, kind: str = "IPClaim", seconds: float = 2.0) -> None:
        """Check for some seconds that a claim gets neither an address nor an error."""
        for body in await keep_looking(lambda: self.find(kind, name), seconds):
            assert body is not None
            assert (get_address_name(body), get_problem(body)) == ("", "")

    async def wait_until_none(self, kind: str) -> None:
        """Wait until no object of a kind is left in the namespace."""
        await until(lambda: self.list_objects(kind), lambda items: not items)

    async def wait_until_later_than(self, timestamp: str) -> None:
        """Wait until objects that are created now get a later creationTimestamp than this."""

        async def read_server_time() -> str:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "now-"}}
            path = f"/api/v1/namespaces/{self.namespace}/configmaps"
            answer = await self.admin.post(path, json=body, params={"dryRun": "All"})
            assert answer.status_code == 201, answer.text
            return str(answer.json()["metadata"]["creationTimestamp"])

        await until(read_server_time, lambda now: now > timestamp)

    async def read_addresses(self) -> dict[str, str]:
        """Return the address of each claim that has one, by kind and name."""
        address_by_claim = {}
        for kind in CLAIM_KINDS:
            addresses = {
                body["metadata"]["name"]: body["spec"]["address"]
                for body in await self.list_objects(ADDRESS_KINDS[kind])
            }
            for claim in await self.list_objects(kind):
                if get_address_name(claim):
                    key = f"{kind} {claim['metadata']['name']}"
                    address_by_claim[key] = addresses[get_address_name(claim)]
        return address_by_claim

    async def wait_for_events(self, kind: str, name: str) -> list[str]:
        """Wait for an event about an object; return the notes of all events about it."""

        async def list_notes() -> list[str]:
            path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
            answer = await self.admin.get(path)
            assert answer.status_code == 200, answer.text
            return [
                event["note"]
                for event in answer.json()["items"]
                if (event["regarding"]["kind"], event["regarding"]["name"]) == (kind, name)
            ]

        return await until(list_notes, bool)
