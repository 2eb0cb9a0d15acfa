"""The label of the platform's own load balancer: people tell it from tenants' by it, we do not."""

from collections.abc import Iterable

import structlog

from controller.client import Client
from controller.errors import ControllerError
from controller.meta import Key, Version
from reconcilers.api import names
from reconcilers.api.resources import SERVICE, Service

_log = structlog.get_logger(__name__)


def unlabelled(services: Iterable[Service], platform: str) -> Service | None:
    """Return the platform's Service if it lacks its label; `platform` is `namespace/name`."""
    namespace, _, name = platform.partition("/")
    for service in services:
        if service.metadata.key == Key(namespace, name):
            labelled = service.metadata.labels.get(names.LABEL_PLATFORM_LB) == "true"
            return None if labelled or service.metadata.terminating else service
    return None


async def label(client: Client, service: Service) -> None:
    """Label the platform's Service in a tenant. What fails is logged: nothing depends on it."""
    labels = {names.LABEL_PLATFORM_LB: "true"}
    try:
        await client.patch(SERVICE, Version.from_object(service), {"metadata": {"labels": labels}})
    except ControllerError as error:
        _log.info("cannot label the platform's Service", error=str(error))
