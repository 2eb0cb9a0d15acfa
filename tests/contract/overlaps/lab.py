"""Pools of every kind on a server, as a test creates, changes and waits for them.

Each test has a subnet of 64 addresses. Its pools, one of each kind at most, hand out the lower or
the upper half of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import httpx

from tests.polling import until

Body = dict[str, Any]
NAMESPACE = "default"
IPAM = "ipam.cluster.x-k8s.io/v1alpha2"
PATHS: Mapping[str, tuple[str, str, bool]] = {
    "NetworkPool": ("butler.butlerlabs.dev/v1alpha1", "networkpools", True),
    "InClusterIPPool": (IPAM, "inclusterippools", True),
    "GlobalInClusterIPPool": (IPAM, "globalinclusterippools", False),
    "InClusterPrefixPool": (IPAM, "inclusterprefixpools", True),
    "GlobalInClusterPrefixPool": (IPAM, "globalinclusterprefixpools", False),
    "IPAMPool": ("kubermatic.k8c.io/v1", "ipampools", False),
    "NetworkNamespace": ("vitistack.io/v1alpha2", "networknamespaces", True),
}
"""By kind: the API version, the plural, and whether it has namespaces."""
LOWER, UPPER = "lower", "upper"
IPV6_ONLY = {"InClusterPrefixPool", "GlobalInClusterPrefixPool"}
IPV4_ONLY = {"NetworkNamespace"}


@dataclass
class OverlapLab:
    """The pools of one test; the methods create, read and wait for them.

    Args:
        admin: the administrator's client.
        number: the number of the test; its subnet is 10.NUMBER.0.0/26, or fd00:NUMBER::/122.
        ipv6: whether the test's pools are of IPv6.
        warnings: the warnings of webhooks about the last write.
    """

    admin: httpx.AsyncClient
    number: int
    ipv6: bool = False
    warnings: list[str] = field(default_factory=list)

    def get_name(self, kind: str) -> str:
        """Return the name of the test's pool of a kind."""
        return f"{kind.lower()}-{self.number}"

    def get_full_name(self, kind: str) -> str:
        """Return the name of the test's pool of a kind as messages write it."""
        within = f"{NAMESPACE}/" if PATHS[kind][2] else ""
        return f"{kind} {within}{self.get_name(kind)}"

    def build_path(self, kind: str, name: str = "") -> str:
        """Return the URL path of a pool, or of the collection of a kind if `name` is empty."""
        version, plural, namespaced = PATHS[kind]
        within = f"/namespaces/{NAMESPACE}" if namespaced else ""
        return f"/apis/{version}{within}/{plural}" + (f"/{name}" if name else "")

    def make_spec(self, kind: str, half: str) -> Body:
        """Return the spec of a pool that hands out one half of the subnet."""
        first, last = (0, 31) if half == LOWER else (32, 63)
        subnet_start = self.get_address(0)
        bits, prefix = (128, 64) if self.ipv6 else (32, 24)
        ends = self.get_address(first), self.get_address(last)
        span, block = "-".join(ends), f"{ends[0]}/{bits - 5}"
        if kind == "NetworkPool":
            ranges = [{"start": ends[0], "end": ends[1]}]
            return {"cidr": f"{subnet_start}/{bits - 6}", "tenantAllocation": {"ranges": ranges}}
        if kind.endswith("IPPool"):
            return {"addresses": [span], "prefix": prefix, "gateway": self.get_address(254)}
        if kind.endswith("PrefixPool"):
            return {"prefixes": [block], "allocationPrefixLength": bits - 2}
        if kind == "IPAMPool":
            settings = {"type": "range", "poolCidr": block, "allocationRange": 4}
            return {"datacenters": {f"dc-{self.number}": settings}}
        within = {"ipv4RangeStart": ends[0], "ipv4RangeEnd": ends[1]}
        static = {
            "ipv4CIDR": f"{subnet_start}/{bits - 6}",
            "ipv4Gateway": self.get_address(62),
            **within,
        }
        return {
            "datacenterIdentifier": f"dc-{self.number}",
            "supervisorIdentifier": "supervisor",
            "ipAllocation": {"type": "static", "static": static},
        }

    def get_address(self, offset: int) -> str:
        """Return the address at an offset in the subnet."""
        subnet = f"fd00:{self.number}::" if self.ipv6 else f"10.{self.number}.0.0"
        return str(ip_address(subnet) + offset)

    async def create(self, kind: str, half: str = LOWER) -> Body:
        """Create the test's pool of a kind."""
        body = {
            "apiVersion": PATHS[kind][0],
            "kind": kind,
            "metadata": {"name": self.get_name(kind)},
            "spec": self.make_spec(kind, half),
        }
        answer = await self.admin.post(self.build_path(kind), json=body)
        assert answer.status_code == 201, answer.text
        self._note_warnings(answer)
        return dict(answer.json())

    async def change_half(self, kind: str, half: str) -> None:
        """Let the test's pool of a kind hand out a half; an IPAMPool is recreated for it."""
        path = self.build_path(kind, self.get_name(kind))
        if kind == "IPAMPool":  # KKP does not allow a change of its addresses
            await self.delete(kind)
            await self.create(kind, half)
            return
        headers = {"Content-Type": "application/merge-patch+json"}
        patch = {"spec": self.make_spec(kind, half)}
        answer = await self.admin.patch(path, json=patch, headers=headers)
        assert answer.status_code == 200, answer.text
        self._note_warnings(answer)

    async def delete(self, kind: str) -> None:
        """Delete the test's pool of a kind, and wait until it is gone."""
        path = self.build_path(kind, self.get_name(kind))
        answer = await self.admin.delete(path)
        assert answer.status_code in {200, 202}, answer.text
        await until(lambda: self.admin.get(path), lambda gone: gone.status_code == 404)

    async def find(self, kind: str) -> Body:
        """Return the test's pool of a kind."""
        answer = await self.admin.get(self.build_path(kind, self.get_name(kind)))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def wait_until_overlapping(self, kind: str, other: str) -> None:
        """Wait until the test's pool of a kind reports an overlap with that of kind `other`."""
        name = self.get_full_name(other)
        if kind == "IPAMPool":  # which has no status
            await until(self.list_overlap_notes, lambda notes: any(name in note for note in notes))
        else:
            await until(
                lambda: self.find_condition(kind),
                lambda condition: (
                    condition.get("status") == "True" and name in condition["message"]
                ),
            )

    async def wait_until_apart(self, kind: str) -> None:
        """Wait until the test's pool of a kind reports that no other pool overlaps with it.

        An IPAMPool has no status. A NetworkNamespace without overlap may lack the condition.
        """
        apart = {"False"} if kind != "NetworkNamespace" else {"False", None}
        if kind != "IPAMPool":
            await until(
                lambda: self.find_condition(kind),
                lambda condition: condition.get("status") in apart,
            )

    async def find_condition(self, kind: str) -> Body:
        """Return the condition Overlapping of the test's pool of a kind; empty for none."""
        conditions = (await self.find(kind)).get("status", {}).get("conditions", [])
        return next(
            (condition for condition in conditions if condition["type"] == "Overlapping"), {}
        )

    async def list_overlap_notes(self) -> list[str]:
        """Return the notes of the test's IPAMPool's events about shared addresses."""
        answer = await self.admin.get(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
        regarding = "IPAMPool", self.get_name("IPAMPool"), "Overlapping"
        return [
            event["note"]
            for event in answer.json()["items"]
            if (event["regarding"]["kind"], event["regarding"]["name"], event["reason"])
            == regarding
        ]

    def _note_warnings(self, answer: httpx.Response) -> None:
        """Store the warnings of webhooks in an answer, without code and agent."""
        warnings = answer.headers.get_list("warning")
        self.warnings = [value.split(" ", 2)[2].strip('"') for value in warnings]
