"""How a manager runs: settings with controller-runtime's defaults."""

import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from controller.errors import ConfigurationError
from controller.leasekind import LeaseSettings
from controller.meta import Key


def identity() -> str:
    """Return a name for this process that no other has: host and a random UUID."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class SelfSigned:
    """A webhook certificate of our own making, for clusters without cert-manager.

    Args:
        namespace: of the Service and the Secret.
        service: the Service in front of the webhook server; the certificate is for its names.
        secret: where the replicas share the certificate and the authority behind it.
        validating: names of the ValidatingWebhookConfigurations whose caBundle is kept right.
        mutating: names of the MutatingWebhookConfigurations, likewise.
        names: further DNS names and addresses of the certificate; webhooks that are configured
            with a URL of one of these hosts get the caBundle too.

    Raises:
        ValueError: the namespace, the service or the secret has no name.
    """

    namespace: str
    service: str
    secret: str
    validating: Sequence[str] = ()
    mutating: Sequence[str] = ()
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.namespace or not self.service or not self.secret:
            raise ValueError("a webhook certificate needs a namespace, a service and a secret")

    @property
    def all_names(self) -> tuple[str, ...]:
        """What the certificate is for; the API server asks for the first."""
        within = f"{self.service}.{self.namespace}"
        return (f"{within}.svc", f"{within}.svc.cluster.local", within, self.service, *self.names)


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """The settings of a manager.

    Args:
        leader_elect: work only while holding the lease.
        lease_namespace: where the lease lives.
        lease_name: what the lease is called.
        identity: this process, as the lease names its holder.
        lease_duration: seconds after which another may take a lease that was not renewed.
        renew_deadline: seconds after which we stop if we could not renew.
        retry_period: seconds between attempts.
        metrics_bind: where /metrics is served: `:8080`, `127.0.0.1:0`; empty or `0` for nowhere.
        metrics_secure: serve them over HTTPS, to those whom the API server lets get /metrics.
        metrics_cert_dir: the folder with tls.crt and tls.key for that; empty makes a certificate
            that nobody can verify, as controller-runtime does.
        health_bind: where /healthz and /readyz are served; likewise.
        webhook_bind: where webhooks are served, over HTTPS; likewise.
        webhook_cert_dir: the folder with tls.crt and tls.key for them, from cert-manager say.
        webhook_self_signed: how to make a certificate where there is no such folder.
        grace_seconds: how long running reconciliations may take to end when stopping.
        stream_lists: ask for lists as beginnings of watches (the WatchList feature, which servers
            have switched on since 1.34), and in parts only where a server cannot.
        detect_mutations: end with ObjectMutated when somebody changes an object of a cache in
            place; for tests, as it keeps a description of every object.
    """

    leader_elect: bool = False
    lease_namespace: str = ""
    lease_name: str = ""
    identity: str = field(default_factory=identity)
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
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

    def lease_settings(self) -> LeaseSettings:
        """Return the settings of the election.

        Raises:
            ConfigurationError: the lease has no name, or its times leave no room for each other.
        """
        if not self.lease_name or not self.lease_namespace:
            raise ConfigurationError("leader election needs a name and a namespace for the lease")
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
