"""Objects of vitistack on a server, as a test makes, changes and awaits them.

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
"""The settings of a network, as far as a test has no others."""


@dataclass
class Lab:
    """The objects of one test.

    Args:
        admin: the administrator's client.
        namespace: where all of them are.
    """

    admin: httpx.AsyncClient
    namespace: str

    def path(self, kind: str, name: str = "") -> str:
        """Return the path of an object, or of all of its kind."""
        version, plural = PATHS[kind]
        path = f"/apis/vitistack.io/{version}/namespaces/{self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    async def post(self, kind: str, name: str, spec: Body, **metadata: Any) -> Body:
        """Create an object."""
        body = {
            "apiVersion": f"vitistack.io/{PATHS[kind][0]}",
            "kind": kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
        answer = await self.admin.post(self.path(kind), json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def find(self, kind: str, name: str) -> Body | None:
        """Return an object, None if there is none."""
        answer = await self.admin.get(self.path(kind, name))
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def every(self, kind: str) -> list[Body]:
        """Return all objects of a kind in the namespace."""
        answer = await self.admin.get(self.path(kind))
        assert answer.status_code == 200, answer.text
        return list(answer.json()["items"])

    async def patch(self, path: str, patch: Mapping[str, Any]) -> Body:
        """Merge a patch into an object."""
        headers = {"Content-Type": "application/merge-patch+json"}
        answer = await self.admin.patch(path, json=patch, headers=headers)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        answer = await self.admin.delete(self.path(kind, name))
        assert answer.status_code in {200, 202}, answer.text

    async def network(
        self,
        name: str = NETWORK,
        *,
        phase: str | None = "Ready",
        allocation: Body | None = None,
        **static: Any,
    ) -> Body:
        """Create a network, and say how far it is provisioned.

        Args:
            phase: its provisioningPhase; None for none.
            allocation: its spec.ipAllocation; by default static, with `static` in it.
            static: settings besides STATIC.
        """
        settings = {**STATIC, **static}
        how = allocation or {"type": "static", "static": settings}
        created = await self.post("NetworkNamespace", name, {"ipAllocation": how})
        return await self.set_phase(name, phase) if phase else created

    async def set_phase(self, name: str, phase: str) -> Body:
        """Say how far a network is provisioned."""
        status = {"status": {"provisioningPhase": phase}}
        return await self.patch(f"{self.path('NetworkNamespace', name)}/status", status)

    async def settings(self, name: str = NETWORK, **static: Any) -> Body:
        """Change what a network hands out."""
        spec = {"ipAllocation": {"static": static}}
        return await self.patch(self.path("NetworkNamespace", name), {"spec": spec})

    async def ask(self, name: str, requested: str = "", **spec: Any) -> Body:
        """Create an IPAllocation by hand."""
        full_spec = {"networkNamespaceName": NETWORK, "networkConfigurationName": "vm", **spec}
        expected = {"requestedAddress": requested} if requested else {}
        return await self.post("IPAllocation", name, {**full_spec, **expected})

    async def configuration(self, name: str, *interfaces: str, **spec: Any) -> Body:
        """Create a NetworkConfiguration with these interfaces."""
        listed = [
            {"name": interface, "macAddress": f"02:00:00:00:00:{i:02}"}
            for i, interface in enumerate(interfaces)
        ]
        full_spec = {"name": name, "networkNamespaceName": NETWORK, "networkInterfaces": listed}
        return await self.post("NetworkConfiguration", name, {**full_spec, **spec})

    async def until(self, kind: str, name: str, holds: Callable[[Body], bool]) -> Body:
        """Wait until an object is there and as it should be; return it."""
        body = await until(
            lambda: self.find(kind, name),
            lambda condition: condition is not None and holds(condition),
        )
        assert body is not None
        return body

    async def wait_until_gone(self, kind: str, name: str) -> None:
        """Wait until an object is gone."""
        await until(lambda: self.find(kind, name), lambda condition: condition is None)

    async def shows(self, name: str, phase: str) -> Body:
        """Wait until an IPAllocation is in a phase; return its status."""
        allocation = await self.until(
            "IPAllocation", name, lambda body: status(body).get("phase") == phase
        )
        return status(allocation)

    async def has(self, name: str, address: str) -> Body:
        """Wait until an IPAllocation has an address; return its status."""
        allocation_status = await self.shows(name, "Allocated")
        assert allocation_status["address"] == address, allocation_status
        return allocation_status

    async def wait_until_refused(self, name: str, message: str) -> None:
        """Wait until an IPAllocation is in phase Error with a text in its message."""
        allocation = await self.until(
            "IPAllocation",
            name,
            lambda body: (
                status(body).get("phase") == "Error" and message in status(body)["message"]
            ),
        )
        assert "address" not in status(allocation)

    async def wait_until_configured(self, name: str, phase: str) -> Body:
        """Wait until a NetworkConfiguration is in a phase; return its status."""
        configuration = await self.until(
            "NetworkConfiguration", name, lambda body: status(body).get("phase") == phase
        )
        return status(configuration)

    async def summary(self, holds: Callable[[Body], bool]) -> Body:
        """Wait until the summary of the network is as it should be; return it."""

        def summary_of(body: Body) -> Body:
            return dict(status(body).get("ipAllocationSummary") or {})

        return summary_of(
            await self.until(
                "NetworkNamespace", NETWORK, lambda network: holds(summary_of(network))
            )
        )

    async def events(self, kind: str, name: str, reason: str) -> list[str]:
        """Wait until there are events of a reason on an object; return their notes."""

        async def look() -> list[str]:
            path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
            answer = await self.admin.get(path)
            assert answer.status_code == 200, answer.text
            return [
                item["note"]
                for item in answer.json()["items"]
                if item["reason"] == reason
                and (item["regarding"]["kind"], item["regarding"]["name"]) == (kind, name)
            ]

        return await until(look, bool)


def status(body: Body) -> Body:
    """Return the status of an object; empty if it has none."""
    return dict(body.get("status") or {})


def addresses(configuration: Body) -> list[str]:
    """Return the addresses that the status of a NetworkConfiguration shows."""
    interfaces = configuration.get("networkInterfaces") or []
    return [
        address for interface in interfaces for address in interface.get("ipv4Addresses") or []
    ]
