"""The choice of a cluster's ProviderConfig, and how often the platform's default is read."""

from typing import Any

import pytest

from controller.errors import Forbidden
from controller.meta import Key
from reconcilers.api.resources import BUTLER_CONFIG
from reconcilers.tenantcluster.provider import DefaultUnknown, Providers
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

NOT_ALLOWED = Forbidden(403, "Forbidden", "butlerconfigs is forbidden")


def _make_lab(provider: Any) -> Lab:
    """Return a lab with one ProviderConfig."""
    lab = Lab()
    lab.server.add("providerconfigs", provider)
    return lab


def _make_providers(lab: Lab) -> Providers:
    """Return the finder of ProviderConfigs of a new process."""
    return Providers(
        lab.client,
        lab.caches["providerconfigs"],
        clock=lab.clock,
        default_namespace=make.NAMESPACE,
    )


class TestChoiceOfProviderConfig:
    """The order of the places where a cluster's ProviderConfig is looked for."""

    async def _find_provider(self, lab: Lab, **tenant: Any) -> Key | None:
        """Return the key of the ProviderConfig of a TenantCluster with such fields."""
        providers = _make_providers(lab)
        provider = await providers.find_for_tenant(make.tenant(**tenant))
        return provider.metadata.key if provider else None

    def _set_platform_default(self, lab: Lab, **reference: str) -> None:
        """Serve ButlerConfigs, and create one with this defaultProviderConfigRef."""
        lab.server.served = (*lab.server.served, "butlerconfigs")
        spec = {"defaultProviderConfigRef": reference}
        lab.server.add("butlerconfigs", {"metadata": {"name": "butler"}, "spec": spec})

    async def test_a_provider_that_the_cluster_names_comes_first(self) -> None:
        lab = _make_lab(make.provider(name="mine"))
        lab.server.add("providerconfigs", make.provider())
        self._set_platform_default(lab, name="default")
        assert await self._find_provider(
            lab, spec={"providerConfigRef": {"name": "mine"}}
        ) == make.key("mine")
        assert lab.server.requests == []

    async def test_a_named_provider_that_is_missing_is_not_replaced_by_another(self) -> None:
        lab = _make_lab(make.provider())
        assert await self._find_provider(lab, spec={"providerConfigRef": {"name": "mine"}}) is None

    async def test_the_platforms_default_comes_second(self) -> None:
        lab = _make_lab(make.provider())
        lab.server.add("providerconfigs", make.provider(name="platform"))
        self._set_platform_default(lab, name="platform")
        assert await self._find_provider(lab) == make.key("platform")

    async def test_a_provider_called_default_comes_third(self) -> None:
        lab = _make_lab(make.provider(name="another"))
        lab.server.add("providerconfigs", make.provider())
        assert await self._find_provider(lab) == make.key("default")

    async def test_the_first_provider_by_name_comes_last(self) -> None:
        lab = _make_lab(make.provider(name="b"))
        lab.server.add("providerconfigs", make.provider(name="a"))
        assert await self._find_provider(lab) == make.key("a")

    async def test_without_any_provider_none_is_found(self) -> None:
        assert await self._find_provider(Lab()) is None

    async def test_a_waiting_cluster_asks_the_platform_again_after_a_while(self) -> None:
        lab = _make_lab(make.provider())
        lab.server.add("providerconfigs", make.provider(name="platform"))
        providers = _make_providers(lab)
        for _ in range(5):
            await providers.find_for_tenant(make.tenant())
        assert lab.server.count(plural="butlerconfigs") == 1
        self._set_platform_default(lab, name="platform")
        await lab.clock.advance(300)
        provider = await providers.find_for_tenant(make.tenant())
        assert provider is not None
        assert provider.metadata.name == "platform"

    async def test_a_ready_cluster_asks_the_platform_once(self) -> None:
        lab = _make_lab(make.provider())
        providers = _make_providers(lab)
        for _ in range(5):
            await providers.find_for_tenant(make.tenant(status={"phase": "Ready"}))
        assert lab.server.count(plural="butlerconfigs") == 1

    async def test_a_default_that_may_not_be_read_is_not_replaced_by_another(self) -> None:
        lab = _make_lab(make.provider())
        self._set_platform_default(lab, name="platform")
        lab.server.fail(NOT_ALLOWED, times=100, plural="butlerconfigs")
        with pytest.raises(DefaultUnknown, match="let a role grant get of butlerconfigs"):
            await self._find_provider(lab)

    async def test_a_403_for_a_kind_that_is_not_served_means_that_there_is_no_default(
        self,
    ) -> None:
        lab = _make_lab(make.provider())
        lab.server.fail(NOT_ALLOWED, times=100, plural="butlerconfigs")
        assert await self._find_provider(lab) == make.key("default")

    async def test_the_default_is_unknown_if_the_kind_has_a_definition_but_is_not_discovered(
        self,
    ) -> None:
        lab = _make_lab(make.provider())
        lab.server.served = (*lab.server.served, "customresourcedefinitions")
        definition = {
            "metadata": {"name": BUTLER_CONFIG.full_name},
            "spec": {"versions": [{"name": BUTLER_CONFIG.version, "served": True}]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        }
        lab.server.add("customresourcedefinitions", definition)
        with pytest.raises(DefaultUnknown, match="the API server may have just started"):
            await self._find_provider(lab)

    async def test_a_platform_without_the_object_has_no_default(self) -> None:
        lab = _make_lab(make.provider())
        lab.server.served = (*lab.server.served, "butlerconfigs")
        assert await self._find_provider(lab) == make.key("default")
