"""Objects of vitistack on a server, as a test creates, changes and waits for them.

Each test has a namespace of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.polling import until

Body = dict[str, Any]
NETWORK = "net"
PATHS = {
    "NetworkNamespace": ("v1alpha2", "networknamespaces"),
    "IPAllocation": ("v1alpha2", "ipallocations"),
    "NetworkConfiguration": ("v1alpha1", "networkconfigurations"),
}
STATIC: Mapping[str, Any] = {
    "ipv4CIDR": "10.0.2.0/24",
    "ipv4Gateway": "10.0.2.1",
    "vlanId": 100,
    "dns": ["8.8.8.8"],
}
"""The settings of a network, unless a test sets others."""


@dataclass
class VitistackLab:
    """A namespace of a server; the methods create, read and wait for objects in it.

    Args:
        admin: the administrator's client.
    """

    admin: httpx.AsyncClient
    namespace: str

    def build_path(self, kind: str, name: str = "") -> str:
        """Return the URL path of an object, or of the collection of a kind if `name` is empty."""
        version, plural = PATHS[kind]
        path = f"/apis/vitistack.io/{version}/namespaces/{self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    async def create(self, kind: str, name: str, spec: Body, **metadata: Any) -> Body:
        """Create an object."""
        body = {
            "apiVersion": f"vitistack.io/{PATHS[kind][0]}",
            "kind": kind,
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
        return list(answer.json()["items"])

    async def patch(self, path: str, patch: Mapping[str, Any]) -> Body:
        """Apply a merge patch to an object; return the object."""
        headers = {"Content-Type": "application/merge-patch+json"}
        answer = await self.admin.patch(path, json=patch, headers=headers)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        answer = await self.admin.delete(self.build_path(kind, name))
        assert answer.status_code in {200, 202}, answer.text

    async def create_network(
        self,
        name: str = NETWORK,
        *,
        phase: str | None = "Ready",
        allocation: Body | None = None,
        **static: Any,
    ) -> Body:
        """Create a network, and write its provisioningPhase.

        Args:
            name: of the NetworkNamespace.
            phase: the provisioningPhase; None means none.
            allocation: the spec.ipAllocation; by default of type static, with STATIC and `static`.
            static: settings in place of those of STATIC, or beside them.
        """
        settings = {**STATIC, **static}
        ip_allocation = allocation or {"type": "static", "static": settings}
        created = await self.create("NetworkNamespace", name, {"ipAllocation": ip_allocation})
        return await self.set_phase(name, phase) if phase else created

    async def set_phase(self, name: str, phase: str) -> Body:
        """Write the provisioningPhase of a network."""
        status = {"status": {"provisioningPhase": phase}}
        return await self.patch(f"{self.build_path('NetworkNamespace', name)}/status", status)

    async def change_settings(self, name: str = NETWORK, **static: Any) -> Body:
        """Change static settings of a network, such as its range."""
        spec = {"ipAllocation": {"static": static}}
        return await self.patch(self.build_path("NetworkNamespace", name), {"spec": spec})

    async def create_allocation(self, name: str, requested: str = "", **spec: Any) -> Body:
        """Create an IPAllocation as a person does.

        Args:
            name: of the IPAllocation.
            requested: the address that it requests; empty means any.
            spec: further fields, or others in place of those here.
        """
        full_spec = {"networkNamespaceName": NETWORK, "networkConfigurationName": "vm", **spec}
        if requested:
            full_spec["requestedAddress"] = requested
        return await self.create("IPAllocation", name, full_spec)

    async def create_configuration(self, name: str, *interfaces: str, **spec: Any) -> Body:
        """Create a NetworkConfiguration with these interfaces."""
        listed = [
            {"name": interface, "macAddress": f"02:00:00:00:00:{i:02}"}
            for i, interface in enumerate(interfaces)
        ]
        full_spec = {"name": name, "networkNamespaceName": NETWORK, "networkInterfaces": listed}
        return await self.create("NetworkConfiguration", name, {**full_spec, **spec})

    async def until(self, kind: str, name: str, holds: Callable[[Body], bool]) -> Body:
        """Wait until an object exists and `holds` is true of it; return the object."""
        body = await until(
            lambda: self.find(kind, name),
            lambda body: body is not None and holds(body),
        )
        assert body is not None
        return body

    async def wait_until_gone(self, kind: str, name: str) -> None:
        """Wait until an object is gone."""
        await until(lambda: self.find(kind, name), lambda body: body is None)

    async def wait_for_phase(self, name: str, phase: str) -> Body:
        """Wait until an IPAllocation is in a phase; return the status."""
        allocation = await self.until(
            "IPAllocation", name, lambda body: get_status(body).get("phase") == phase
        )
        return get_status(allocation)

    async def wait_for_address(self, name: str, address: str) -> Body:
        """Wait until an IPAllocation is Allocated; check its address, and return its status."""
        allocation_status = await self.wait_for_phase(name, "Allocated")
        assert allocation_status["address"] == address, allocation_status
        return allocation_status

    async def wait_until_refused(self, name: str, message: str) -> None:
        """Wait until an IPAllocation is in phase Error with a text in its message."""
        allocation = await self.until(
            "IPAllocation",
            name,
            lambda body: (
                get_status(body).get("phase") == "Error" and message in get_status(body)["message"]
            ),
        )
        assert "address" not in get_status(allocation)

    async def wait_until_configured(self, name: str, phase: str) -> Body:
        """Wait until a NetworkConfiguration is in a phase; return its status."""
        configuration = await self.until(
            "NetworkConfiguration", name, lambda body: get_status(body).get("phase") == phase
        )
        return get_status(configuration)

    async def wait_for_summary(self, holds: Callable[[Body], bool]) -> Body:
        """Wait until `holds` is true of the summary of network NETWORK; return the summary."""

        def get_summary(body: Body) -> Body:
            return dict(get_status(body).get("ipAllocationSummary") or {})

        return get_summary(
            await self.until(
                "NetworkNamespace", NETWORK, lambda network: holds(get_summary(network))
            )
        )

    async def wait_for_events(self, kind: str, name: str, reason: str) -> list[str]:
        """Wait for an event of a reason about an object; return the notes of all of them."""

        async def list_notes() -> list[str]:
            path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
            answer = await self.admin.get(path)
            assert answer.status_code == 200, answer.text
            return [
                item["note"]
                for item in answer.json()["items"]
                if item["reason"] == reason
                and (item["regarding"]["kind"], item["regarding"]["name"]) == (kind, name)
            ]

        return await until(list_notes, bool)


def get_status(body: Body) -> Body:
    """Return the status of an object; empty if it has none."""
    return dict(body.get("status") or {})


def list_addresses(configuration_status: Body) -> list[str]:
    """Return the addresses of the interfaces in the status of a NetworkConfiguration."""
    interfaces = configuration_status.get("networkInterfaces") or []
    return [
        address for interface in interfaces for address in interface.get("ipv4Addresses") or []
    ]
