"""The webhooks of `up` and `demo`: in force once the controllers run.

In force means that the API server calls them. In a cluster, a Service leads to any replica that
runs. Here the configuration names the port of one replica, and is changed when that replica ends.
"""

from dataclasses import replace
from typing import Any

import msgspec

from controller.client import Client
from controller.clock import Clock
from controller.errors import ControllerError, Invalid, ServerFailure
from controller.loggers import get_logger
from controller.meta import Key, Version
from controller.options import ManagerOptions, SelfSigned
from controller.webhooks.kinds import VALIDATING
from reconcilers.api import names
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.cli.local.objects import apply
from reconcilers.cli.local.servers import ApiServer
from reconcilers.cli.problems import CommandProblem
from reconcilers.webhooks.configuration import NAME, SERVICE, build_configuration, find_path

HOST = "127.0.0.1"
SECRET = "butler-ipam-webhook-certificates"  # noqa: S105 - a name
KEY = Key("", NAME)
PATIENCE = 30.0
"""Seconds until the webhooks are in force, at most."""
PAUSE = 0.05
"""Seconds between two requests that find out whether the webhooks are in force."""

_log = get_logger(__name__)

_REFUSED_BY_WEBHOOKS_ALONE: dict[str, Any] = {
    "apiVersion": names.API_VERSION,
    "kind": NETWORK_POOL.kind,
    "metadata": {"name": "webhooks-in-force"},
    "spec": {
        "cidr": "192.0.2.0/24",
        "reserved": [{"cidr": "192.0.2.0/26"}],
        "tenantAllocation": {"ranges": [{"start": "192.0.2.0", "end": "192.0.2.31"}]},
    },
}
"""A pool with a reservation across the end of a range. The CRD allows it, because CEL cannot
compare addresses; only webhooks refuse it."""


def add_webhooks(options: ManagerOptions, namespace: str) -> ManagerOptions:
    """Return `options` with webhooks: at any free port, with a certificate of the manager's own.

    Args:
        namespace: the namespace of the Secret with the certificate.
    """
    signed = SelfSigned(namespace, SERVICE, SECRET, validating=[NAME], names=[HOST])
    return replace(options, webhook_bind=f"{HOST}:0", webhook_self_signed=signed)


async def put_webhooks_in_force(server: ApiServer, port: int, clock: Clock) -> None:
    """Configure the API server to call the webhooks at `port`; wait until it calls them.

    Raises:
        CommandProblem: the API server does not call the webhooks within PATIENCE.
        ControllerError: the API server rejected the configuration, or did not answer.
    """
    await apply(
        server.transport, build_configuration(lambda name: {"url": _build_url(name, port)})
    )
    obstacle = "no webhook was asked"
    with clock.move_on_after(PATIENCE):
        while obstacle:
            obstacle = await _find_obstacle(server)
            if obstacle:
                # The configuration in the API server's cache cannot be read. Only a request
                # shows whether it is in force.
                await clock.sleep(PAUSE)
    if obstacle:
        raise CommandProblem(f"the admission webhooks are not in force: {obstacle}")


async def redirect_webhooks(client: Client, port: int) -> None:
    """Configure the API server to call webhooks at another port; the trusted CA stays.

    Raises:
        Conflict: another client changed the configuration just now.
    """
    configuration = await client.get(VALIDATING, KEY)
    webhooks = [
        {
            **webhook,
            "clientConfig": {**webhook["clientConfig"], "url": _build_url(webhook["name"], port)},
        }
        for webhook in configuration.webhooks
    ]
    await client.patch(VALIDATING, Version.from_object(configuration), {"webhooks": webhooks})


def _build_url(name: str, port: int) -> str:
    """Return the URL of a webhook at a port of this machine."""
    return f"https://{HOST}:{port}{find_path(name)}"


async def _find_obstacle(server: ApiServer) -> str:
    """Return why the webhooks are not in force yet; empty if they are.

    A dry run creates a pool that only the webhooks refuse.
    """
    where = NETWORK_POOL.build_collection_path(names.DEFAULT_NAMESPACE)
    body = msgspec.json.encode(_REFUSED_BY_WEBHOOKS_ALONE)
    try:
        await server.transport.request("POST", where, query={"dryRun": "All"}, body=body)
    except Invalid:
        # The webhooks refused the pool, so they are in force.
        return ""
    except ServerFailure as failure:
        return failure.message
    except ControllerError as failure:
        _log.info("the webhooks could not be tried", error=str(failure))
        return str(failure)
    return "the API server does not ask them"
