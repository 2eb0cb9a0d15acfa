"""Our kind IPAllocation beside vitistack's: the same short name and kind, in one namespace."""

import pytest

from reconcilers.api import names
from tests.contract.vitistack.lab import Lab, status
from tests.polling import until

pytestmark = [pytest.mark.asyncio(loop_scope="package")]
ROOT = f"/apis/{names.API_VERSION}/namespaces"


async def test_both_kinds_are_served_in_one_namespace_under_one_name(lab: Lab) -> None:
    await lab.network()
    pool = {"cidr": "10.40.0.0/24"}
    request = {
        "poolRef": {"name": "same"},
        "tenantClusterRef": {"namespace": lab.namespace, "name": "missing"},
        "type": "loadbalancer",
        "count": 4,
    }
    for kind, plural, spec in (
        ("NetworkPool", "networkpools", pool),
        ("IPAllocation", "ipallocations", request),
    ):
        body = {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": "same"}}
        answer = await lab.admin.post(
            f"{ROOT}/{lab.namespace}/{plural}", json={**body, "spec": spec}
        )
        assert answer.status_code == 201, answer.text
    await lab.ask("same")
    await lab.has("same", "10.0.2.2")

    async def ours() -> dict[str, str]:
        answer = await lab.admin.get(f"{ROOT}/{lab.namespace}/ipallocations/same")
        return {name: status(answer.json()).get(name, "") for name in ("phase", "startAddress")}

    await until(ours, lambda ours: ours == {"phase": "Allocated", "startAddress": "10.40.0.0"})
