"""A Service that the serviceSelector does not select, while a range is marked for release."""

from controller.conditions import format_rfc3339
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.tenantcluster.ciliumtenants import (
    CILIUM_SPEC,
    add_service,
    make_cilium_tenant,
    run_passes,
)


async def test_a_waiting_service_that_is_not_selected_does_not_keep_a_marked_range() -> None:
    selector = {"serviceSelector": {"matchLabels": {"public": "yes"}}}
    spec = {
        "addons": {"loadBalancer": {**CILIUM_SPEC["addons"]["loadBalancer"], "cilium": selector}}
    }
    elastic = {"allocationMode": "elastic", "initialPoolSize": 8, "growthIncrement": 8}
    provider = make.provider("lab", load_balancer=elastic)
    lab, replica, tenant, _operator = make_cilium_tenant(spec=spec, provider=provider)
    for number in range(8):
        add_service(tenant, f"web-{number}")
        labels = {"metadata": {"labels": {"public": "yes"}}}
        tenant.edit("services", f"web-{number}", labels, namespace="default")
    await run_passes(lab, replica, 3)
    mark = {
        "metadata": {"annotations": {names.ANNOTATION_RELEASING: format_rfc3339(lab.clock.now())}}
    }
    lab.server.edit("ipallocations", "team-a-lb-2", mark)
    is_marked: list[bool] = []
    for second in range(12):
        await run_passes(lab, replica, 1)
        if second == 0:
            add_service(tenant, "private")
        is_marked += [
            names.ANNOTATION_RELEASING in allocation["metadata"]["annotations"]
            for allocation in lab.server.all("ipallocations")
            if allocation["metadata"]["name"] == "team-a-lb-2"
        ]
    assert all(is_marked), "the mark was withdrawn while the allocation existed"
    assert len(is_marked) < 12, "the allocation was never released"
