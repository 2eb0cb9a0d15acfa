"""Which ProviderConfig counts for a tenant.

the tenant's providerConfigRef
the platform's default, from ButlerConfig if that kind is served
the ProviderConfig named `default`
the first one there is
"""

from controller.cache import Cache
from controller.client import Client
from controller.errors import Forbidden, NotFound
from controller.meta import Key
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import BUTLER_CONFIG
from reconcilers.api.tenantcluster import TenantCluster

BUTLER_CONFIG_KEY = Key("", "butler")


class Providers:
    """Finds the ProviderConfig of tenants."""

    def __init__(
        self, client: Client, configs: Cache[ProviderConfig], default_namespace: str
    ) -> None:
        self._client = client
        self._configs = configs
        self._namespace = default_namespace

    async def of(self, tenant: TenantCluster) -> ProviderConfig | None:
        """Return the ProviderConfig of `tenant`; None if there is none for it.

        Raises:
            ControllerError: the platform's default could not be read.
        """
        named = tenant.spec.providerConfigRef
        if named is not None:
            return self._configs.get(Key(named.namespace or self._namespace, named.name))
        default = await self._platform_default()
        if default is not None:
            return self._configs.get(default)
        fallback = self._configs.get(Key(self._namespace, "default"))
        return fallback or next(
            (c for c in sorted(self._configs, key=_by_key) if _namespace(c) == self._namespace),
            None,
        )

    async def _platform_default(self) -> Key | None:
        try:
            config = await self._client.get(BUTLER_CONFIG, BUTLER_CONFIG_KEY)
        except (NotFound, Forbidden):
            return None  # read if it is served to us, never required
        reference = config.spec.defaultProviderConfigRef
        if not reference or not reference.get("name"):
            return None
        return Key(str(reference.get("namespace") or self._namespace), str(reference["name"]))


def _by_key(config: ProviderConfig) -> Key:
    return config.metadata.key


def _namespace(config: ProviderConfig) -> str:
    return config.metadata.namespace
