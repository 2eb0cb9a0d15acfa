"""A serving certificate of our own making, shared by the replicas through a Secret.

The Secret is the source of truth. Whoever finds it missing, unreadable or due for renewal
writes a new one: created only if there is none, replaced only at the version that was read, so
that of several replicas one succeeds and the others take what it wrote. Every replica watches it
(one watch, no polling) and shows what it holds to new connections.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import anyio
import structlog

from controller.certificates import Holder
from controller.client import Client
from controller.clock import Clock
from controller.errors import Conflict, ControllerError
from controller.informer import Informer
from controller.meta import Key, Version
from controller.options import SelfSigned
from controller.transport import Transport
from controller.webhooks.kinds import SECRETS, TLS_TYPE, Secret, secret_data
from controller.webhooks.material import Material

RETRY_SECONDS = 5.0

log = structlog.get_logger(__name__)


def _looked_at(
    material: Material | None, names: Sequence[str], now: datetime
) -> tuple[Material, float]:
    """Return what should be served by now, and the seconds until that may change."""
    # Loaded here: cryptography takes 8 MiB that whoever brings a certificate need not pay.
    from controller.webhooks.authority import next_look, renewed  # noqa: PLC0415

    wanted = renewed(material, names, now)
    return wanted, next_look(wanted, now)


class OwnCertificate:
    """A certificate that one process makes for itself and shares with nobody.

    Args:
        holder: shows it.
        clock: for the pauses, and the times in certificates.
        names: what it is for.
    """

    def __init__(self, holder: Holder, clock: Clock, names: Sequence[str]) -> None:
        self._holder = holder
        self._clock = clock
        self._names = names

    async def run(self) -> None:
        """Make it, and again before it ends, until cancelled."""
        material = None
        while True:
            material, pause = _looked_at(material, self._names, self._clock.now())
            self._holder.show(material.certificate, material.key)
            await self._clock.sleep(pause)


class SharedCertificate:
    """Keeps the Secret right, and shows what it holds.

    Args:
        transport: the API server.
        clock: for the pauses, and the times in certificates.
        settings: which Secret, for which names.
        holder: shows the certificate.
    """

    def __init__(
        self, transport: Transport, clock: Clock, settings: SelfSigned, holder: Holder
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._holder = holder
        self._informer: Informer[Secret] = Informer(
            SECRETS,
            transport,
            clock,
            namespace=settings.namespace,
            fields=f"metadata.name={settings.secret}",
        )
        self._client = Client(transport, on_answer=self._answered)
        self._changed = anyio.Event()
        self._waiting: set[anyio.Event] = set()
        self.bundle = b""
        """The authorities to be trusted, PEM; empty as long as there are none."""

    async def run(self) -> None:
        """Keep the Secret right until cancelled."""
        registration = self._informer.add_handler(lambda _: self._changed.set())
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._informer.run)
                await self._synced()
                while True:
                    await self._step()
        finally:
            registration.close()

    async def wait_changed(self, bundle: bytes) -> None:
        """Return once `bundle` is no longer what is to be trusted."""
        while self.bundle == bundle:
            told = anyio.Event()
            self._waiting.add(told)
            try:
                await told.wait()
            finally:
                self._waiting.discard(told)

    async def _synced(self) -> None:
        """Wait until the Secret was looked for, and say meanwhile why it cannot be."""
        while not self._informer.cache.synced:
            with self._clock.move_on_after(RETRY_SECONDS):
                await self._informer.wait_synced()
            error = self._informer.last_error
            if error is not None and not self._informer.cache.synced:
                self._holder.failed(str(error))

    async def _step(self) -> None:
        self._changed = anyio.Event()
        secret = self._informer.cache.get(Key(self._settings.namespace, self._settings.secret))
        stored = secret.material() if secret is not None else None
        wanted, pause = _looked_at(stored, self._settings.all_names, self._clock.now())
        if wanted == stored:
            self._show(wanted)
        else:
            pause = await self._written(secret, wanted)
        with self._clock.move_on_after(pause):
            await self._changed.wait()

    async def _written(self, secret: Secret | None, wanted: Material) -> float:
        """Write the Secret; returns the seconds after which to look again in any case.

        Sooner than that the watch tells what became of it.
        """
        key = Key(self._settings.namespace, self._settings.secret)
        body: Mapping[str, Any] = {
            "metadata": {"name": key.name},
            "type": TLS_TYPE,
            "data": secret_data(wanted),
        }
        try:
            if secret is None:
                await self._client.create(SECRETS, key.namespace, body)
            else:
                patch = {"data": body["data"]}
                await self._client.patch(SECRETS, Version.of(secret), patch)
        except Conflict:
            log.info("Another replica wrote the webhook certificate", secret=str(key))
        except ControllerError as error:
            log.warning("Cannot write the webhook certificate", secret=str(key), error=str(error))
            self._holder.failed(f"secret {key}: {error}")
        else:
            log.info("Wrote a new webhook certificate", secret=str(key))
        return RETRY_SECONDS

    def _show(self, material: Material) -> None:
        self._holder.show(material.certificate, material.key)
        if material.bundle != self.bundle:
            self.bundle = material.bundle
            for told in self._waiting:
                told.set()

    def _answered(self, _: object, obj: Any) -> None:
        self._informer.cache.own(obj)
