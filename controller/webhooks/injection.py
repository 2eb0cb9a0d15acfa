"""Telling API servers whom to trust: the caBundle of webhook configurations that call us.

Only the leader does so, so that replicas that see a rotation at different moments do not
write against each other. A configuration is written only where it differs, at the version that
was read. It is watched, so a bundle that somebody removes (by applying the manifest again,
say) is back at once.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import anyio
import structlog

from controller.client import Client
from controller.clock import Clock
from controller.errors import Conflict, ControllerError, NotFound
from controller.health import Check, Failing
from controller.informer import Informer
from controller.jobs import running
from controller.meta import Key, Version
from controller.options import SelfSigned
from controller.resource import Resource
from controller.transport import Transport
from controller.webhooks.kinds import MUTATING, VALIDATING, WebhookConfiguration
from controller.webhooks.selfsigned import SharedCertificate

RETRY_SECONDS = 5.0

_Informer = Informer[WebhookConfiguration]

log = structlog.get_logger(__name__)


class Injector:
    """Keeps the caBundle of the named configurations right.

    Args:
        transport: the API server.
        clock: for the pauses.
        settings: which configurations, and which of their webhooks are ours.
        shared: knows whom to trust.
    """

    def __init__(
        self, transport: Transport, clock: Clock, settings: SelfSigned, shared: SharedCertificate
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._shared = shared
        named: list[tuple[Resource[WebhookConfiguration], Sequence[str]]] = [
            (VALIDATING, settings.validating),
            (MUTATING, settings.mutating),
        ]
        self._informers: dict[tuple[Resource[WebhookConfiguration], str], _Informer] = {
            (kind, name): Informer(kind, transport, clock, fields=f"metadata.name={name}")
            for kind, names in named
            for name in names
        }
        self._client = Client(transport, on_answer=self._answered)
        self._changed = anyio.Event()
        self._refused: dict[str, str] = {}

    def check(self) -> Check:
        """Return a check that fails while a configuration cannot be read or written.

        Its webhooks are not called then, or called and not trusted, and with the failure policy
        `Fail` nobody can write what they judge. Replicas that do not lead have nothing to say.
        """

        def ask() -> Failing | None:
            refused = dict(self._refused)
            for (kind, name), informer in self._informers.items():
                if informer.last_error is not None:
                    refused[f"watch {kind.plural} {name}"] = str(informer.last_error)
            if not refused:
                return None
            return Failing(f"cannot {', '.join(refused)}", "; ".join(refused.values()))

        return Check("webhook-ca-bundle", ask)

    async def run(self) -> None:
        """Keep the configurations right until cancelled."""
        informers = self._informers.values()
        registrations = [
            informer.add_handler(lambda _: self._changed.set()) for informer in informers
        ]
        tasks = [informer.run for informer in informers]
        try:
            async with running([*tasks, self._tell_of_bundles]):
                while True:
                    self._changed = anyio.Event()
                    settled = [await self._inject(kind, name) for kind, name in self._informers]
                    if all(settled):
                        await self._changed.wait()
                    else:
                        with self._clock.move_on_after(RETRY_SECONDS):
                            await self._changed.wait()
        finally:
            self._refused.clear()
            for registration in registrations:
                registration.close()

    async def _tell_of_bundles(self) -> None:
        while True:
            bundle = self._shared.bundle
            await self._shared.wait_changed(bundle)
            self._changed.set()

    async def _inject(self, kind: Resource[WebhookConfiguration], name: str) -> bool:
        """Bring one configuration to what it should be; False if that has to be tried again."""
        found = self._informers[kind, name].cache.get(Key("", name))
        if found is None or not self._shared.bundle:
            return True
        webhooks = with_bundle(found.webhooks, self._shared.bundle, self._settings)
        what = f"patch {kind.plural} {name}"
        if webhooks == list(found.webhooks):
            self._refused.pop(what, None)
            return True
        try:
            await self._client.patch(kind, Version.of(found), {"webhooks": webhooks})
        except (Conflict, NotFound):
            # It is not what it was; the watch tells what it is.
            return False
        except ControllerError as error:
            log.warning("Cannot write the CA bundle", configuration=name, error=str(error))
            self._refused[what] = str(error)
            return False
        self._refused.pop(what, None)
        log.info("Wrote the CA bundle", configuration=name, kind=kind.kind)
        return True

    def _answered(self, resource: Resource[Any], obj: Any) -> None:
        self._informers[resource, obj.metadata.name].cache.own(obj)


def with_bundle(
    webhooks: Sequence[Mapping[str, Any]], bundle: bytes, settings: SelfSigned
) -> list[Mapping[str, Any]]:
    """Return the webhooks with `bundle` in those that call us, and the others as they are."""
    encoded = b64encode(bundle).decode("ascii")
    return [
        {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": encoded}}
        if _calls_us(webhook.get("clientConfig") or {}, settings)
        else webhook
        for webhook in webhooks
    ]


def _calls_us(client: Mapping[str, Any], settings: SelfSigned) -> bool:
    service = client.get("service") or {}
    if service:
        return (service.get("namespace"), service.get("name")) == (
            settings.namespace,
            settings.service,
        )
    return urlsplit(str(client.get("url") or "")).hostname in settings.names
