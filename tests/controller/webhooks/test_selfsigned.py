"""A certificate shared through a Secret, and the CA bundle in webhook configurations."""

from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry

from controller.certificates import CertificateMetrics, ServingCertificate
from controller.errors import Forbidden
from controller.health import Failing
from controller.options import SelfSigned
from controller.webhooks.authority import SERVING_LIFETIME, renew_if_due
from controller.webhooks.kinds import encode_secret_data
from controller.webhooks.selfsigned import CABundleInjector, SharedCertificate
from tests.clock import START, VirtualClock
from tests.controller.store import Store, StoreTransport

SECRET = "/api/v1/namespaces/system/secrets/hook-cert"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATION = f"{ADMISSION}/validatingwebhookconfigurations/rules"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GIZMOS = f"{DEFINITIONS}/gizmos.example.com"
MUTATING = f"{ADMISSION}/mutatingwebhookconfigurations/defaults"
SETTINGS = SelfSigned(
    namespace="system",
    service="hook",
    secret="hook-cert",
    validating=("rules",),
    mutating=("defaults",),
    converting=("gizmos.example.com", "others.example.com"),
)


class Replica:
    """One process: its certificate, its connection, and an injector."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.transport = StoreTransport(store)
        self.holder = ServingCertificate("webhook", CertificateMetrics(CollectorRegistry()))
        self.shared = SharedCertificate(
            self.transport, clock, settings=SETTINGS, serving=self.holder
        )
        self.injector = CABundleInjector(
            self.transport, clock, settings=SETTINGS, shared=self.shared
        )

    @property
    def problem(self) -> Failing | None:
        """What its readiness check says."""
        return self.holder.create_check().run()


class Harness:
    """A store, a clock, and two replicas of which the first leads."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = Store()
        self.replicas = [Replica(self.store, self.clock) for _ in range(2)]

    def secret(self, key: str) -> bytes:
        return b64decode(self.store.objects[SECRET]["data"][key])

    def put_secret(self, created_at: datetime) -> None:
        data = encode_secret_data(renew_if_due(None, SETTINGS.all_names, created_at))
        body = {"metadata": {"name": "hook-cert", "namespace": "system"}, "data": data}
        self.store.put(SECRET, body)

    def put_configuration(self, path: str = CONFIGURATION) -> None:
        ours = {"service": {"namespace": "system", "name": "hook", "path": "/judge"}}
        theirs = {"service": {"namespace": "system", "name": "other"}, "caBundle": "b3RoZXI="}
        webhooks = [
            {"name": "a.example.com", "clientConfig": ours, "sideEffects": "None"},
            {"name": "b.example.com", "clientConfig": theirs},
        ]
        name = path.rpartition("/")[2]
        self.store.put(path, {"metadata": {"name": name}, "webhooks": webhooks})

    def put_definition(self, plural: str, conversion: dict[str, Any]) -> None:
        spec = {"group": "example.com", "conversion": conversion}
        name = f"{plural}.example.com"
        self.store.put(f"{DEFINITIONS}/{name}", {"metadata": {"name": name}, "spec": spec})

    def webhooks(self, path: str = CONFIGURATION) -> list[dict[str, Any]]:
        webhooks: list[dict[str, Any]] = self.store.objects[path]["webhooks"]
        return webhooks

    def bundle(self, path: str = CONFIGURATION) -> bytes:
        return b64decode(self.webhooks(path)[0]["clientConfig"].get("caBundle", ""))


@asynccontextmanager
async def run_harness(harness: Harness) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        for replica in harness.replicas:
            group.start_soon(replica.shared.run)
        group.start_soon(harness.replicas[0].injector.run)
        await harness.clock.advance(0)
        yield
        group.cancel_scope.cancel()


async def test_replicas_make_one_certificate_and_share_it() -> None:
    harness = Harness()
    async with run_harness(harness):
        await harness.clock.advance(5)
        assert harness.store.objects[SECRET]["type"] == "kubernetes.io/tls"
        assert [replica.problem for replica in harness.replicas] == [None, None]
        bundles = {replica.shared.bundle for replica in harness.replicas}
        assert bundles == {harness.secret("ca.crt")}


async def test_a_certificate_that_is_there_is_taken_and_not_written_again() -> None:
    harness = Harness()
    harness.put_secret(START)
    revision = harness.store.revision
    async with run_harness(harness):
        await harness.clock.advance(3600)
        assert [replica.problem for replica in harness.replicas] == [None, None]
    assert harness.store.revision == revision


async def test_a_certificate_is_renewed_before_it_ends_under_the_same_authority() -> None:
    harness = Harness()
    harness.put_secret(START - SERVING_LIFETIME * 2 / 3 + timedelta(minutes=10))
    async with run_harness(harness):
        before = {key: harness.secret(key) for key in ("ca.crt", "tls.crt")}
        await harness.clock.advance(540)
        assert harness.secret("tls.crt") == before["tls.crt"]
        await harness.clock.advance(120)
        assert harness.secret("tls.crt") != before["tls.crt"]
        assert harness.secret("ca.crt") == before["ca.crt"]
        assert [replica.problem for replica in harness.replicas] == [None, None]


async def test_a_secret_that_is_deleted_is_made_again_and_the_bundle_follows() -> None:
    harness = Harness()
    harness.put_configuration()
    async with run_harness(harness):
        await harness.clock.advance(5)
        before = harness.bundle()
        harness.store.remove(SECRET)
        await harness.clock.advance(5)
        assert harness.bundle() == harness.secret("ca.crt") != before
        assert {replica.shared.bundle for replica in harness.replicas} == {harness.bundle()}


async def test_a_secret_that_cannot_be_decoded_is_replaced() -> None:
    harness = Harness()
    body = {"metadata": {"name": "hook-cert", "namespace": "system"}, "data": {"tls.crt": "?"}}
    harness.store.put(SECRET, body)
    async with run_harness(harness):
        await harness.clock.advance(5)
        assert b"BEGIN CERTIFICATE" in harness.secret("tls.crt")
        assert [replica.problem for replica in harness.replicas] == [None, None]


async def test_the_bundle_goes_to_webhooks_that_call_us_and_to_no_others() -> None:
    harness = Harness()
    for path in (CONFIGURATION, MUTATING):
        harness.put_configuration(path)
    async with run_harness(harness):
        await harness.clock.advance(5)
        for path in (CONFIGURATION, MUTATING):
            assert harness.bundle(path) == harness.secret("ca.crt")
            ours, theirs = harness.webhooks(path)
            assert theirs["clientConfig"]["caBundle"] == "b3RoZXI="
            assert ours["sideEffects"] == "None"
        revision = harness.store.revision
        await harness.clock.advance(3600)
        assert harness.store.revision == revision


async def test_the_bundle_goes_to_crds_whose_objects_are_converted_here_and_to_no_others() -> None:
    harness = Harness()
    ours = {"service": {"namespace": "system", "name": "hook", "path": "/convert-gizmo"}}
    harness.put_definition("gizmos", {"strategy": "Webhook", "webhook": {"clientConfig": ours}})
    harness.put_definition("others", {"strategy": "None"})
    async with run_harness(harness):
        await harness.clock.advance(5)
        spec = harness.store.objects[GIZMOS]["spec"]
        client = spec["conversion"]["webhook"]["clientConfig"]
        assert b64decode(client["caBundle"]) == harness.secret("ca.crt")
        assert client["service"] == ours["service"]
        assert (spec["group"], spec["conversion"]["strategy"]) == ("example.com", "Webhook")
        revision = harness.store.revision
        await harness.clock.advance(3600)
        assert harness.store.revision == revision
        harness.store.remove(SECRET)
        await harness.clock.advance(5)
        client = harness.store.objects[GIZMOS]["spec"]["conversion"]["webhook"]["clientConfig"]
        assert b64decode(client["caBundle"]) == harness.secret("ca.crt")


async def test_a_crd_that_may_not_be_written_is_named_by_readiness() -> None:
    harness = Harness()
    ours = {"service": {"namespace": "system", "name": "hook"}}
    harness.put_definition("gizmos", {"strategy": "Webhook", "webhook": {"clientConfig": ours}})
    leader = harness.replicas[0]
    leader.transport.errors_by_method["PATCH"] = Forbidden(403, "Forbidden", "no")
    async with run_harness(harness):
        await harness.clock.advance(10)
        problem = "cannot patch customresourcedefinitions gizmos.example.com"
        assert leader.injector.create_check().run() == Failing(problem, "403 Forbidden: no")
        leader.transport.errors_by_method.clear()
        await harness.clock.advance(5)
        assert leader.injector.create_check().run() is None


async def test_a_removed_bundle_is_written_again_at_once() -> None:
    harness = Harness()
    async with run_harness(harness):
        await harness.clock.advance(5)
        harness.put_configuration()
        await harness.clock.advance(0)
        assert harness.bundle() == harness.secret("ca.crt")
        harness.put_configuration()
        await harness.clock.advance(0)
        assert harness.bundle() == harness.secret("ca.crt")


async def test_a_missing_role_fails_readiness_until_it_is_granted() -> None:
    harness = Harness()
    leader = harness.replicas[0]
    harness.replicas = [leader]
    leader.transport.errors_by_plural["secrets"] = Forbidden(
        403, "Forbidden", "secrets is forbidden"
    )
    async with run_harness(harness):
        await harness.clock.advance(10)
        assert leader.problem is not None
        assert "secrets is forbidden" in leader.problem.why
        leader.transport.errors_by_plural.clear()
        await harness.clock.advance(120)
        assert leader.problem is None


async def test_a_refused_write_of_the_secret_is_retried() -> None:
    harness = Harness()
    leader = harness.replicas[0]
    harness.replicas = [leader]
    leader.transport.errors_by_method["POST"] = Forbidden(
        403, "Forbidden", "cannot create secrets"
    )
    async with run_harness(harness):
        await harness.clock.advance(10)
        assert leader.problem is not None
        assert "cannot create secrets" in leader.problem.why
        leader.transport.errors_by_method.clear()
        await harness.clock.advance(10)
        assert leader.problem is None


async def test_a_configuration_that_may_not_be_written_is_tried_again() -> None:
    harness = Harness()
    harness.put_configuration()
    leader, standby = harness.replicas
    leader.transport.errors_by_method["PATCH"] = Forbidden(403, "Forbidden", "no")
    async with run_harness(harness):
        await harness.clock.advance(10)
        assert harness.bundle() == b""
        problem = "cannot patch validatingwebhookconfigurations rules"
        assert leader.injector.create_check().run() == Failing(problem, "403 Forbidden: no")
        assert standby.injector.create_check().run() is None
        leader.transport.errors_by_method.clear()
        await harness.clock.advance(5)
        assert harness.bundle() == harness.secret("ca.crt")
        assert leader.injector.create_check().run() is None


async def test_a_configuration_that_may_not_be_read_is_named_by_readiness() -> None:
    harness = Harness()
    harness.put_configuration()
    leader = harness.replicas[0]
    plural = "validatingwebhookconfigurations"
    leader.transport.errors_by_plural[plural] = Forbidden(403, "Forbidden", "not yours")
    async with run_harness(harness):
        await harness.clock.advance(10)
        problem = leader.injector.create_check().run()
        assert problem is not None
        assert problem.problem == f"cannot watch {plural} rules"
        assert "not yours" in problem.why
        leader.transport.errors_by_plural.clear()
        await harness.clock.advance(120)
        assert leader.injector.create_check().run() is None
        assert harness.bundle() == harness.secret("ca.crt")


def test_a_self_signed_certificate_needs_a_namespace_service_and_secret() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        SelfSigned(namespace="", service="hook", secret="x")
