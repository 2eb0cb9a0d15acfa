"""One pass over one ProviderConfig.

gone?             nothing to do
being deleted?    the finalizer goes when no TenantCluster refers to it any more
no finalizer?     add it
otherwise         evaluate credentials, scope and pools; write the status if it differs
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.conditions import is_true, remove_condition, rfc3339
from controller.errors import Conflict, Forbidden, NotFound
from controller.events import Recorder
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.loggers import get_logger
from controller.meta import Key
from controller.outcome import SETTLED, Again, Blocked, Outcome
from controller.statelog import StateLog
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import LOCAL, ProviderConfig
from reconcilers.api.resources import (
    PROVIDER_CONFIG,
    SECRET,
    TEAM,
    TENANT_CLUSTER,
    ClusterOutline,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.configuration.settings import Settings
from reconcilers.promises.unreadable import UnreadableObject, describe_unreadable, outline_of
from reconcilers.providerconfig import evaluation
from reconcilers.providerconfig.evaluation import Evaluation
from reconcilers.reporting.conditions import ConditionFinding, render_conditions, with_findings
from reconcilers.tenantcluster.providerreference import refers_to

_UNREADABLE = "unreadable TenantClusters"
"""The topic of the state that is logged."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _ReadSecret:
    """The CredentialsValid condition of one generation, and when the Secret was read for it."""

    generation: int
    at: float
    finding: ConditionFinding


@dataclass(frozen=True, slots=True)
class _Team:
    """Whether a ProviderConfig's team existed, when that was read, and when it is read again."""

    name: str
    exists: bool
    at: float
    fresh: float


class ProviderConfigReconciler:
    """Writes whether providers can be used, and keeps those in use from being deleted."""

    def __init__(  # noqa: PLR0913 - the caches it reads; the wiring is the one caller
        self,
        client: Client,
        configs: Cache[ProviderConfig],
        *,
        pools: Cache[NetworkPool],
        clusters: Cache[TenantCluster],
        recorder: Recorder,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._client = client
        self._configs = configs
        self._pools = pools
        self._clusters = clusters
        self._recorder = recorder
        self._clock = clock
        self._settings = settings
        self._secrets: dict[Key, _ReadSecret] = {}
        self._teams: dict[Key, _Team] = {}
        self._logged = StateLog()

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one ProviderConfig."""
        if key in self._configs.unreadable:
            # Not absent: and what is written from an older version is refused.
            return Blocked("Unreadable")
        config = self._configs.get(key)
        if config is None:
            self._secrets.pop(key, None)
            self._teams.pop(key, None)
            self._logged.forget(key)
            return SETTLED
        try:
            if config.metadata.terminating:
                return await self._reconcile_deleted(config)
            config = await add_finalizer(
                self._client, PROVIDER_CONFIG, config, names.FINALIZER_PROVIDER
            )
            result = await self._evaluate(config)
            await self._write_status(config, result)
        except (Conflict, NotFound):
            return Again(1.0)
        return Again(self._requeue_after(result.credentials, self._teams.get(key)))

    def _requeue_after(self, credentials: ConditionFinding, team: _Team | None = None) -> float:
        settings = self._settings.provider
        sound = credentials.status and (team is None or team.exists)
        return settings.resync if sound else settings.requeue_invalid

    async def _evaluate(self, config: ProviderConfig) -> Evaluation:
        """Check the spec, the credentials Secret, the team and the pools of a ProviderConfig."""
        findings: list[ConditionFinding] = []
        namespaces = self._settings.pool.namespaces
        wrong = evaluation.refused_namespace(config, namespaces)
        wrong = wrong or evaluation.validity(config) or await self._team(config)
        if wrong is not None:
            findings.append(wrong)
        evaluated = evaluation.pools(
            config, self._pools.get, unreadable=self._pools.unreadable, namespaces=namespaces
        )
        if evaluated is not None:
            findings.append(evaluated[0])
        return Evaluation(
            await self._credentials(config), tuple(findings), evaluated[1] if evaluated else None
        )

    async def _credentials(self, config: ProviderConfig) -> ConditionFinding:
        """Return the condition of the credentials; read their Secret once per requeue."""
        reference = config.spec.credentialsRef
        if reference is None:
            nothing = () if config.spec.provider == LOCAL else None
            return evaluation.credentials(config, "(no credentialsRef)", nothing)
        where = Key(reference.namespace or config.metadata.namespace, reference.name)
        key, now = config.metadata.key, self._clock.monotonic()
        known = self._secrets.get(key)
        # Pools change often, Secrets hardly ever: a pass because of a pool reads no Secret.
        if (
            known is not None
            and known.generation == config.metadata.generation
            and now - known.at < 0.99 * self._requeue_after(known.finding)
        ):
            return known.finding
        outcome = await self._check_secret(config, where)
        self._secrets[key] = _ReadSecret(config.metadata.generation, now, outcome)
        return outcome

    async def _check_secret(self, config: ProviderConfig, where: Key) -> ConditionFinding:
        """Read the credentials Secret live and return the resulting condition.

        404 and 403 are findings; any other error is raised.
        """
        try:
            secret = await self._client.get(SECRET, where)
        except NotFound:
            return evaluation.credentials(config, str(where), None)
        except Forbidden:
            return evaluation.unreadable(str(where))
        filled = [key for key, value in secret.data.items() if value]
        return evaluation.credentials(config, str(where), filled)

    async def _team(self, config: ProviderConfig) -> ConditionFinding | None:
        """Return the finding that the provider's team does not exist; None if it does.

        It is read as often as the Secret of the provider.

        Teams are read if they are served, never required: a 404 without a reason is about the
        kind, and one that may not be read counts as existing.
        """
        name = evaluation.team(config)
        if not name:
            self._teams.pop(config.metadata.key, None)
            return None
        now, known = self._clock.monotonic(), self._teams.get(config.metadata.key)
        if known is None or known.name != name or now - known.at >= 0.99 * known.fresh:
            exists = await self._has_team(name)
            settings = self._settings.provider
            fresh = settings.resync if exists else settings.requeue_invalid
            known = self._teams[config.metadata.key] = _Team(name, exists, at=now, fresh=fresh)
        return None if known.exists else evaluation.unknown_team(name)

    async def _has_team(self, name: str) -> bool:
        try:
            await self._client.get(TEAM, Key("", name))
        except NotFound as missing:
            return missing.reason != "NotFound"
        except Forbidden:
            return True
        return True

    async def _write_status(self, config: ProviderConfig, result: Evaluation) -> None:
        change = self._change(config, result)
        if not change:
            return
        answer = await self._client.patch_status(PROVIDER_CONFIG, config, change)
        self._record(config, answer, result)

    def _change(self, config: ProviderConfig, result: Evaluation) -> dict[str, Any]:
        """Return the status patch; empty if the status shows it already.

        The times of validation and of the last probe move only with a result, so that a provider
        at rest is not written every few minutes.
        """
        now, status = self._clock.now(), config.status
        valid = result.credentials.status
        findings = [result.credentials, *(f for f in result.findings if f.type != "Ready")]
        conditions = with_findings(
            status.conditions
            if result.capacity is not None
            else remove_condition(status.conditions, evaluation.POOL_AVAILABLE),
            [*findings, evaluation.overall(result)],
            generation=config.metadata.generation,
            now=now,
        )
        change: dict[str, Any] = {}
        if render_conditions(conditions) != render_conditions(status.conditions):
            change["conditions"] = render_conditions(conditions)
        if status.validated != valid or status.ready != valid:
            change |= {"validated": valid, "ready": valid}
            if valid:
                change["lastValidationTime"] = rfc3339(now)
        if result.capacity != status.capacity:
            change["capacity"] = result.capacity and result.capacity.to_patch(status.capacity)
        if change:
            change["lastProbeTime"] = rfc3339(now)
        return change

    def _record(self, before: ProviderConfig, after: ProviderConfig, result: Evaluation) -> None:
        """Record a warning event for each condition that has just turned to False."""
        for finding, reason in (
            (result.credentials, "CredentialsInvalid"),
            *(
                (finding, evaluation.EVENT_REASONS[finding.reason])
                for finding in result.findings
                if finding.reason in evaluation.EVENT_REASONS
            ),
        ):
            turned = not is_true(before.status.conditions, finding.type) and any(
                c.type == finding.type and c.status == "False" for c in before.status.conditions
            )
            if not finding.status and not turned:
                self._recorder.record(
                    PROVIDER_CONFIG, after, "Warning", reason, finding.message, action="Validate"
                )

    async def _reconcile_deleted(self, config: ProviderConfig) -> Outcome:
        """Remove the finalizer once a live list shows no TenantCluster that refers to it.

        A TenantCluster that cannot be read may refer to it, unless its reference can be decoded.
        """
        if not has_finalizer(config, names.FINALIZER_PROVIDER):
            return SETTLED
        if any(self._refers(cluster, config) for cluster in self._clusters):
            return Blocked("InUse", self._settings.provider.requeue_deleting)
        page = await self._client.list(TENANT_CLUSTER)
        unreadable = [
            key for key, failure in page.unreadable.items() if self._may_refer(failure, config)
        ]
        if unreadable:
            return await self._wait_for_unreadable(config, sorted(unreadable))
        self._logged.end(config.metadata.key, _UNREADABLE)
        if any(self._refers(cluster, config) for cluster in page.items):
            return Blocked("InUse", self._settings.provider.requeue_deleting)
        await remove_finalizer(self._client, PROVIDER_CONFIG, config, names.FINALIZER_PROVIDER)
        return SETTLED

    async def _wait_for_unreadable(
        self, config: ProviderConfig, clusters: Sequence[Key]
    ) -> Outcome:
        """Report which TenantClusters may refer to a deleted ProviderConfig; retry later."""
        unreadable = [UnreadableObject(TENANT_CLUSTER.kind, cluster) for cluster in clusters]
        reason = describe_unreadable(unreadable)
        key = config.metadata.key
        if self._logged.begin(key, _UNREADABLE, reason):
            _log.warning("deleted ProviderConfig stays", provider=str(key), reason=reason)
        finding = evaluation.clusters_unreadable(reason)
        generation, before = config.metadata.generation, config.status.conditions
        conditions = render_conditions(
            with_findings(before, [finding], generation=generation, now=self._clock.now())
        )
        if conditions != render_conditions(before):
            patch = {"conditions": conditions}
            written = await self._client.patch_status(PROVIDER_CONFIG, config, patch)
            self._recorder.record(
                PROVIDER_CONFIG,
                written,
                "Warning",
                finding.reason,
                finding.message,
                action="Delete",
            )
        return Blocked(finding.reason, self._settings.provider.requeue_deleting)

    def _may_refer(self, failure: str, config: ProviderConfig) -> bool:
        """Return whether a TenantCluster that cannot be read names a ProviderConfig, or may."""
        outline = outline_of(failure)
        return not isinstance(outline, ClusterOutline) or self._refers(outline, config)

    def _refers(self, cluster: TenantCluster | ClusterOutline, config: ProviderConfig) -> bool:
        return refers_to(cluster, config, self._settings.namespace, by_default=False)
