"""The live page shows pools of claims as they are served, with the rights of the shipped roles."""

from pathlib import Path

import pytest

from controller.clock import SystemClock
from controller.config import connect
from controller.pages import Bind
from reconcilers.ui.serving import serve_local_page
from tests.browser import browser
from tests.contract.clusterapi.lab import ClusterApiLab
from tests.contract.product import Server, install_roles

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_a_claim_that_is_served_and_released_is_seen_on_the_page(
    server: Server, lab: ClusterApiLab, tmp_path: Path
) -> None:
    await install_roles(server.admin, "ui")  # the page shows the controllers' events
    transport = await connect(server.kubeconfig, None, user_agent="page")
    pool_name = f"InClusterIPPool {lab.namespace}/machines"
    pool = f"document.querySelector('[data-pool=\"{pool_name}\"]')"
    try:
        async with (
            serve_local_page(transport, SystemClock(), Bind("127.0.0.1", 0)) as url,
            browser(tmp_path) as page,
        ):
            await page.show(url)
            await page.until("document.body && document.body.dataset.drawn === 'true'")
            await lab.create_pool("machines", "10.99.0.10-10.99.0.12")
            await page.until(f"{pool}?.textContent.includes('3 of 3 free')")
            await lab.create_claim("web", "machines")
            await page.until(f"{pool}.textContent.includes('2 of 3 free')")
            await lab.delete("IPAddressClaim", "web")
            await page.until(f"{pool}.textContent.includes('3 of 3 free')")
            assert await page.value("store.failures.length") == 0
    finally:
        await transport.aclose()
