"""What the real MetalLB and the real LB-IPAM do to each other in one tenant."""

from envtest.metallb import NAMESPACE, read_metallb_definitions, run_metallb_controller
from envtest.settings import read_settings
from reconcilers.api.resources import NAMESPACE as NAMESPACES
from tests.cilium.site import RealSite
from tests.polling import keep_looking, until
from tests.reconcilers.loadbalancers.cilium.site import FIRST


async def test_a_metallb_without_pools_takes_the_addresses_that_cilium_gave(
    site: RealSite,
) -> None:
    settings = read_settings()
    await site.plane.install_crds(read_metallb_definitions(settings))
    await site.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    await site.project_and_wait(FIRST)
    await site.create_service("web")
    await until(site.list_users, bool)
    async with run_metallb_controller(site.kubeconfig, settings):
        looks = await keep_looking(site.list_users, 3.0)
        assert [] in looks
    await until(site.list_users, bool)
