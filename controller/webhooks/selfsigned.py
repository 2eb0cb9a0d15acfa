"""Self-signed webhook certificates, for clusters without cert-manager.

The replicas share a certificate through a Secret (`SharedCertificate`). A replica that finds the
Secret missing, unreadable or due for renewal writes new key material. It creates the Secret only
if there is none, and replaces it only at the version that it read. So one of several replicas
succeeds, and the others use its certificate. Each replica watches the Secret and presents its
certificate in TLS connections.

The bundle is the list of trusted authorities. API servers read it as the caBundle in webhook
configurations, and in CRDs whose objects are converted here (`CABundleInjector`). Only the leader
writes the caBundle: replicas see a rotation at different times, and would overwrite each other.
An object is written only if it differs, at the version that was read. The objects are watched, so
a caBundle is restored if somebody removes it, for example by applying the manifest again.

`SelfSignedCertificate` is for one process that shares its certificate with no other.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import anyio

from controller.certificates import ServingCertificate
from controller.client import Client
from controller.clock import Clock
from controller.errors import Conflict, ControllerError, NotFound
from controller.health import Check, Failing
from controller.informer import Informer
from controller.jobs import run_in_background
from controller.loggers import get_logger
from controller.meta import Key, Version
from controller.options import SelfSigned
from controller.resource import Resource
from controller.transport import Transport
from controller.webhooks.kinds import (
    DEFINITIONS,
    MUTATING,
    SECRETS,
    TLS_TYPE,
    VALIDATING,
    CustomResourceDefinition,
    KeyMaterial,
    Secret,
    WebhookConfiguration,
    encode_secret_data,
)

RETRY_SECONDS = 5.0

log = get_logger(__name__)


def _renew_if_due(
    material: KeyMaterial | None, names: Sequence[str], now: datetime
) -> tuple[KeyMaterial, float]:
    """Return the key material to serve now, and the seconds until it may have to be renewed."""
    # Imported here: cryptography takes 8 MiB, which a configured certificate does not need.
    from controller.webhooks.authority import compute_seconds_until_due, renew_if_due  # noqa: PLC0415

    renewed = renew_if_due(material, names, now)
    return renewed, compute_seconds_until_due(renewed, now)


class SelfSignedCertificate:
    """Makes a certificate for one process, which no other shares.

    Args:
        serving: presents the certificate in TLS connections.
        clock: for delays, and the times in certificates.
        names: the DNS names and addresses in the certificate.
    """

    def __init__(self, serving: ServingCertificate, clock: Clock, names: Sequence[str]) -> None:
        self._serving = serving
        self._clock = clock
        self._names = names

    async def run(self) -> None:
        """Make the certificate, and a new one before it expires, until cancelled."""
        material = None
        while True:
            material, seconds = _renew_if_due(material, self._names, self._clock.now())
            self._serving.replace(material.certificate, material.key)
            await self._clock.sleep(seconds)


class SharedCertificate:
    """Keeps the Secret up to date, and presents its certificate.

    Args:
        transport: the API server.
        clock: for delays, and the times in certificates.
        settings: the Secret and the names in the certificate.
        serving: presents the certificate in TLS connections.
    """

    def __init__(
        self, transport: Transport, clock: Clock, settings: SelfSigned, serving: ServingCertificate
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._serving = serving
        self._informer: Informer[Secret] = Informer(
            SECRETS,
            transport,
            clock,
            namespace=settings.namespace,
            fields=f"metadata.name={settings.secret}",
        )
        self._client = Client(transport, on_object=self._apply_own_write)
        self._changed = anyio.Event()
        self._bundle_waiters: set[anyio.Event] = set()
        self.bundle = b""
        """The trusted authorities, PEM; empty until there is key material."""

    async def run(self) -> None:
        """Keep the Secret up to date until cancelled."""
        registration = self._informer.add_handler(lambda _: self._changed.set())
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._informer.run)
                await self._wait_synced()
                while True:
                    await self._renew_and_wait()
        finally:
            registration.close()

    async def wait_for_other_bundle(self, bundle: bytes) -> None:
        """Wait until the trusted authorities are others than `bundle`."""
        while self.bundle == bundle:
            changed = anyio.Event()
            self._bundle_waiters.add(changed)
            try:
                await changed.wait()
            finally:
                self._bundle_waiters.discard(changed)

    async def _wait_synced(self) -> None:
        """Wait until the Secret was listed; report meanwhile why it cannot be listed."""
        while not self._informer.cache.is_synced:
            with self._clock.move_on_after(RETRY_SECONDS):
                await self._informer.wait_synced()
            error = self._informer.last_error
            if error is not None and not self._informer.cache.is_synced:
                self._serving.report_failure(str(error))

    async def _renew_and_wait(self) -> None:
        """Renew the certificate if it is due, then wait until it changes or is due again."""
        self._changed = anyio.Event()
        secret = self._informer.cache.get(Key(self._settings.namespace, self._settings.secret))
        stored = secret.read_key_material() if secret is not None else None
        material, seconds = _renew_if_due(stored, self._settings.all_names, self._clock.now())
        # New material is presented only after the watch has delivered it: another replica may
        # have written other material first.
        if material == stored:
            self._present_certificate(material)
        else:
            await self._write_secret(secret, material)
            seconds = RETRY_SECONDS  # the watch delivers the result earlier
        with self._clock.move_on_after(seconds):
            await self._changed.wait()

    async def _write_secret(self, secret: Secret | None, material: KeyMaterial) -> None:
        """Write the Secret with a new certificate, unless another replica was first."""
        key = Key(self._settings.namespace, self._settings.secret)
        body: Mapping[str, Any] = {
            "metadata": {"name": key.name},
            "type": TLS_TYPE,
            "data": encode_secret_data(material),
        }
        try:
            if secret is None:
                await self._client.create(SECRETS, key.namespace, body)
            else:
                patch = {"data": body["data"]}
                await self._client.patch(SECRETS, Version.from_object(secret), patch)
        except Conflict:
            # No failure: the watch delivers the other replica's Secret. This includes
            # AlreadyExists, for a Secret that both wanted to create.
            log.info("Another replica wrote the webhook certificate", secret=str(key))
        except ControllerError as error:
            log.warning("Cannot write the webhook certificate", secret=str(key), error=str(error))
            self._serving.report_failure(f"secret {key}: {error}")
        else:
            log.info("Wrote a new webhook certificate", secret=str(key))

    def _present_certificate(self, material: KeyMaterial) -> None:
        """Present the stored certificate, and wake the waiters if the bundle has changed."""
        self._serving.replace(material.certificate, material.key)
        if material.bundle != self.bundle:
            self.bundle = material.bundle
            for changed in self._bundle_waiters:
                changed.set()

    def _apply_own_write(self, _: object, obj: Any) -> None:
        """Put the Secret that was just written into the cache, before the watch delivers it."""
        self._informer.cache.apply_own_write(obj)


class CABundleInjector:
    """Keeps the caBundle of webhook configurations and CRDs up to date.

    Args:
        transport: the API server.
        clock: for delays.
        settings: the configurations, and which of their webhooks are ours.
        shared: knows the trusted authorities.
    """

    def __init__(
        self, transport: Transport, clock: Clock, settings: SelfSigned, shared: SharedCertificate
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._shared = shared
        kinds: list[tuple[Resource[Any], Sequence[str]]] = [
            (VALIDATING, settings.validating),
            (MUTATING, settings.mutating),
            (DEFINITIONS, settings.converting),
        ]
        self._informers: dict[tuple[Resource[Any], str], Informer[Any]] = {
            (kind, name): Informer(kind, transport, clock, fields=f"metadata.name={name}")
            for kind, names in kinds
            for name in names
        }
        self._client = Client(transport, on_object=self._apply_own_write)
        self._changed = anyio.Event()
        self._failures: dict[str, str] = {}

    def create_check(self) -> Check:
        """Return a readiness check that fails while a configuration cannot be read or written.

        API servers then do not trust the webhooks of that configuration. With the failure policy
        `Fail`, the kinds in its rules cannot be written. Objects that have to be converted cannot
        be read either. In replicas that do not lead, the check passes.
        """

        def find_failure() -> Failing | None:
            """Return the failures to read or write configurations; None if there are none."""
            failures = dict(self._failures)
            for (kind, name), informer in self._informers.items():
                if informer.last_error is not None:
                    failures[f"watch {kind.plural} {name}"] = str(informer.last_error)
            if not failures:
                return None
            return Failing(f"cannot {', '.join(failures)}", "; ".join(failures.values()))

        return Check("webhook-ca-bundle", find_failure)

    async def run(self) -> None:
        """Keep the configurations up to date until cancelled."""
        informers = self._informers.values()
        registrations = [
            informer.add_handler(lambda _: self._changed.set()) for informer in informers
        ]
        tasks = [informer.run for informer in informers]
        try:
            async with run_in_background([*tasks, self._watch_bundle]):
                while True:
                    self._changed = anyio.Event()
                    are_current = [
                        await self._write_bundle(kind, name) for kind, name in self._informers
                    ]
                    if all(are_current):
                        await self._changed.wait()
                    else:  # a write has to be retried, even if nothing changes
                        with self._clock.move_on_after(RETRY_SECONDS):
                            await self._changed.wait()
        finally:
            self._failures.clear()  # the check passes in a replica that leads no longer
            for registration in registrations:
                registration.close()

    async def _watch_bundle(self) -> None:
        """Wake `run` for each change of the trusted authorities, until cancelled."""
        while True:
            await self._shared.wait_for_other_bundle(self._shared.bundle)
            self._changed.set()

    async def _write_bundle(self, kind: Resource[Any], name: str) -> bool:
        """Write the bundle to one configuration if it differs.

        Returns:
            Whether nothing has to be retried: the next change of the configuration or of the
            bundle suffices.
        """
        configuration = self._informers[kind, name].cache.get(Key("", name))
        if configuration is None or not self._shared.bundle:
            # The configuration does not exist, or there is no bundle yet; either's arrival wakes
            # `run`.
            return True
        patch = create_bundle_patch(configuration, self._shared.bundle, self._settings)
        subject = f"patch {kind.plural} {name}"
        if not patch:
            self._failures.pop(subject, None)
            return True
        try:
            await self._client.patch(kind, Version.from_object(configuration), patch)
        except (Conflict, NotFound):
            return False  # not a failure: the object was changed or deleted since it was read
        except ControllerError as error:
            log.warning("Cannot write the CA bundle", configuration=name, error=str(error))
            self._failures[subject] = str(error)
            return False
        self._failures.pop(subject, None)
        log.info("Wrote the CA bundle", configuration=name, kind=kind.kind)
        return True

    def _apply_own_write(self, resource: Resource[Any], obj: Any) -> None:
        """Put the object that was just written into its cache, before the watch delivers it."""
        self._informers[resource, obj.metadata.name].cache.apply_own_write(obj)


def create_bundle_patch(
    configuration: WebhookConfiguration | CustomResourceDefinition,
    bundle: bytes,
    settings: SelfSigned,
) -> dict[str, Any]:
    """Return the merge patch that writes `bundle` to the webhooks that call this server.

    It is empty if they have the bundle already.

    Args:
        configuration: a webhook configuration, or a CRD.
        bundle: the trusted authorities, PEM.
        settings: the names of this server.
    """
    encoded = b64encode(bundle).decode("ascii")
    if isinstance(configuration, WebhookConfiguration):
        # A merge patch replaces a list as a whole, so it has the webhooks of other servers, too.
        webhooks = [_add_bundle(webhook, encoded, settings) for webhook in configuration.webhooks]
        return {} if webhooks == list(configuration.webhooks) else {"webhooks": webhooks}
    webhook = configuration.spec.conversion.get("webhook") or {}
    changed = _add_bundle(webhook, encoded, settings)
    return {} if changed == webhook else {"spec": {"conversion": {"webhook": changed}}}


def _add_bundle(
    webhook: Mapping[str, Any], encoded: str, settings: SelfSigned
) -> Mapping[str, Any]:
    """Return a webhook with the bundle if it calls this server, else the same webhook."""
    client = webhook.get("clientConfig") or {}
    if not _is_this_server(client, settings):
        return webhook
    return {**webhook, "clientConfig": {**client, "caBundle": encoded}}


def _is_this_server(client: Mapping[str, Any], settings: SelfSigned) -> bool:
    """Return whether a webhook's clientConfig leads to our Service or one of our host names."""
    service = client.get("service") or {}
    if service:
        return (service.get("namespace"), service.get("name")) == (
            settings.namespace,
            settings.service,
        )
    return urlsplit(str(client.get("url") or "")).hostname in settings.names
