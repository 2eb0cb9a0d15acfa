"""Labels the Service of the platform's ingress in a tenant.

People distinguish the platform's load balancer from the tenant's by the label. Nothing in the
controller needs it.
"""

from collections.abc import Iterable, Sequence

from controller.errors import ControllerError
from controller.loggers import get_logger
from controller.meta import Key, Version
from controller.statelog import StateLog
from reconcilers.api import names
from reconcilers.api.services import SERVICE, Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable

_LABEL = "label of the platform's Service"
"""The topic of the state that is logged."""
_log = get_logger(__name__)


class PlatformLabel:
    """Labels the platform's Service in tenants.

    Args:
        state_log: the states of tenants that were logged.
        platform: the Service, as `namespace/name`.
    """

    def __init__(self, tenants: TenantClients, state_log: StateLog, platform: str) -> None:
        self._tenants = tenants
        self._state_log = state_log
        self._platform = platform

    async def apply(self, tenant: TenantCluster, services: Sequence[Service]) -> None:
        """Label the platform's Service if it lacks its label.

        A failure is logged and not raised: the label is a help for people, and the pass goes on.

        Args:
            services: all Services of the tenant.
        """
        service = find_unlabelled(services, self._platform)
        if service is None:
            return
        patch = {"metadata": {"labels": {names.LABEL_PLATFORM_LB: "true"}}}
        key = tenant.metadata.key
        try:
            async with self._tenants.open_client(tenant) as client:
                try:
                    await client.patch(SERVICE, Version.from_object(service), patch)
                    self._state_log.end(key, _LABEL)
                except ControllerError as error:
                    # Caught inside of the client's context, so that a write which the tenant
                    # rejects does not count as a failure to reach the tenant.
                    self._log_failure(key, str(error))
        except TenantUnavailable as error:
            self._log_failure(key, error.message)

    def _log_failure(self, key: Key, error: str) -> None:
        """Log why the Service has no label; at debug level if the reason was logged before."""
        is_new = self._state_log.begin(key, _LABEL, error)
        log = _log.info if is_new else _log.debug
        log("cannot label the platform's Service", error=error)


def find_unlabelled(services: Iterable[Service], platform: str) -> Service | None:
    """Return the platform's Service if it lacks its label; None if there is nothing to label.

    Args:
        platform: the platform's Service, as `namespace/name`.
    """
    namespace, _, name = platform.partition("/")
    for service in services:
        if service.metadata.key == Key(namespace, name):
            has_label = service.metadata.labels.get(names.LABEL_PLATFORM_LB) == "true"
            return None if has_label or service.metadata.is_terminating else service
    return None
