"""The settings of a manager, with controller-runtime's defaults."""

import re
import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from controller.errors import ConfigurationError
from controller.leases import LeaseSettings
from controller.meta import Key
from controller.shards import build_lease_name, build_member_lease_name, compute_shard

MAX_NAME = 253
"""The characters that the name of an object may have."""
_LABEL = re.compile("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def create_identity() -> str:
    """Return a unique name for this process: the host's name and a random UUID."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class SelfSigned:
    """Settings of a self-signed webhook certificate, for clusters without cert-manager.

    Args:
        namespace: the namespace of the Service and the Secret.
        service: the Service of the webhook server; the certificate has its DNS names.
        secret: the Secret in which the replicas share the certificate and its authority.
        validating: names of the ValidatingWebhookConfigurations whose caBundle is written.
        mutating: names of the MutatingWebhookConfigurations whose caBundle is written.
        converting: names of the CustomResourceDefinitions whose caBundle is written.
        names: further DNS names and addresses in the certificate; webhooks with a URL of one of
            these hosts get the caBundle, too.

    Raises:
        ValueError: the namespace, the service or the secret has no name.
    """

    namespace: str
    service: str
    secret: str
    validating: Sequence[str] = ()
    mutating: Sequence[str] = ()
    converting: Sequence[str] = ()
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.namespace or not self.service or not self.secret:
            raise ValueError("a webhook certificate needs a namespace, a service and a secret")

    @property
    def all_names(self) -> tuple[str, ...]:
        """The DNS names and addresses in the certificate; the API server uses the first."""
        within = f"{self.service}.{self.namespace}"
        return (f"{within}.svc", f"{within}.svc.cluster.local", within, self.service, *self.names)


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """The settings of a manager.

    Args:
        leader_elect: reconcile only while holding the lease.
        lease_namespace: the namespace of the lease; needed for an election.
        lease_name: the name of the lease, equal in all replicas of one program; needed for an
            election.
        identity: the name of this process in the lease; unique.
        lease_duration: seconds after which others may take a lease that was not renewed.
        renew_deadline: seconds after which a leader that cannot renew stops leading.
        retry_period: seconds between attempts.
        shards: the number of parts into which the keys are divided, each with a lease of its own,
            so that all replicas work. 0 for one lease, so that one replica works. Shards need
            `leader_elect`.
        metrics_bind: the address of /metrics: `:8080`, `127.0.0.1:0`; empty or `0` for none.
        metrics_secure: serve /metrics over HTTPS, and only to clients that RBAC allows to read it.
        metrics_cert_dir: the folder with tls.crt and tls.key of /metrics; empty for a certificate
            that no client can verify, as in controller-runtime.
        health_bind: the address of /healthz and /readyz; empty or `0` for none.
        webhook_bind: the address of the webhooks (HTTPS), which a manager with webhooks needs; `0`
            to serve none.
        webhook_cert_dir: the folder with their tls.crt and tls.key, from cert-manager for example.
        webhook_self_signed: how to create a certificate if `webhook_cert_dir` is empty.
        grace_seconds: how long running reconciliations may take to end when the manager stops. A
            Pod's terminationGracePeriodSeconds has to be at least five seconds more.
        stream_lists: read lists as initial events of watches (the WatchList feature, on by default
            in servers since 1.34). If the server cannot do that, lists are read in pages.
        detect_mutations: end with ObjectMutated when a cached object is changed in place. For
            tests, because it keeps each object as JSON, too.
    """

    leader_elect: bool = False
    lease_namespace: str = ""
    lease_name: str = ""
    identity: str = field(default_factory=create_identity)
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    shards: int = 0
    metrics_bind: str = ""
    metrics_secure: bool = False
    metrics_cert_dir: str = ""
    health_bind: str = ""
    webhook_bind: str = ""
    webhook_cert_dir: str = ""
    webhook_self_signed: SelfSigned | None = None
    grace_seconds: float = 30.0
    stream_lists: bool = True
    detect_mutations: bool = False

    def create_lease_settings(self) -> LeaseSettings:
        """Return the settings of the election.

        Raises:
            ConfigurationError: the lease has no name or one that no object can have, its times
                contradict each other, or shards are set without leader election.
        """
        if self.shards and not self.leader_elect:
            raise ConfigurationError("shards are shared by leases: they need leader election")
        if not self.lease_name or not self.lease_namespace:
            raise ConfigurationError("leader election needs a name and a namespace for the lease")
        if not _LABEL.fullmatch(self.lease_namespace):
            raise ConfigurationError(
                f"no namespace can be named {self.lease_namespace!r}, where leader election is to"
                f" have its lease: write lower-case letters, digits and -, at most 63 characters"
            )
        # The leases of shards and replicas have longer names; those of replicas are the longest.
        suffix_length = len(build_member_lease_name("", self.shards, "")) if self.shards else 0
        longest = MAX_NAME - suffix_length
        if not _SUBDOMAIN.fullmatch(self.lease_name) or len(self.lease_name) > longest:
            raise ConfigurationError(
                f"no lease can be named {self.lease_name!r}: write lower-case letters, digits, -"
                f" and . between them, at most {longest} characters"
            )
        try:
            return LeaseSettings(
                key=Key(self.lease_namespace, self.lease_name),
                identity=self.identity,
                lease_duration=self.lease_duration,
                renew_deadline=self.renew_deadline,
                retry_period=self.retry_period,
            )
        except ValueError as error:
            raise ConfigurationError(str(error)) from error

    def get_lease_key(self, key: Key) -> Key:
        """Return the key of the Lease whose holder works on an object.

        Args:
            key: namespace and name of the object, whose shard is that of this key.
        """
        if not self.shards:
            return Key(self.lease_namespace, self.lease_name)
        name = build_lease_name(self.lease_name, self.shards, compute_shard(key, self.shards))
        return Key(self.lease_namespace, name)
