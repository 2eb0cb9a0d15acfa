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
from controller.conditions import find_condition, format_rfc3339, remove_condition
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
from reconcilers.promises.unreadable import UnreadableObject, describe_unreadable, read_outline
from reconcilers.providerconfig import evaluation
from reconcilers.providerconfig.evaluation import Evaluation
from reconcilers.reporting.conditions import ConditionFinding, render_conditions, with_findings
from reconcilers.tenantcluster.providerreference import refers_to

_UNREADABLE = "unreadable TenantClusters"
"""The topic of the state that is logged."""
_STALE_SECONDS = 1.0
"""Seconds until a retry after a conflict: the cache shows the newer object by then."""
_FRESH_SHARE = 0.99
"""For which share of the requeue a read of a Secret or a Team is used again.

It is a bit less than all of it, so that the requeued pass does read."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _ReadSecret:
    """The CredentialsValid condition of one generation, by a read of the Secret.

    Args:
        read_at: when the Secret was read, in monotonic seconds.
    """

    generation: int
    read_at: float
    finding: ConditionFinding


@dataclass(frozen=True, slots=True)
class _Team:
    """Whether a ProviderConfig's team existed at the last read.

    Args:
        read_at: when it was read, in monotonic seconds.
        fresh_seconds: for how many seconds the result is used.
    """

    name: str
    exists: bool
    read_at: float
    fresh_seconds: float


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
        self._state_log = StateLog()

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one ProviderConfig, in the steps of the module docstring."""
        if key in self._configs.unreadable:
            # The object still exists, so the memory of it stays. It is not written: the cache has
            # at most an older version, and the API server rejects a write based on that.
            return Blocked("Unreadable")
        config = self._configs.get(key)
        if config is None:
            self._secrets.pop(key, None)
            self._teams.pop(key, None)
            self._state_log.forget(key)
            return SETTLED
        try:
            if config.metadata.is_terminating:
                return await self._reconcile_deleted(config)
            config = await add_finalizer(
                self._client, PROVIDER_CONFIG, config, names.FINALIZER_PROVIDER
            )
            result = await self._evaluate(config)
            await self._write_status(config, result)
        except (Conflict, NotFound):
            # The cache is behind: the object was written or deleted meanwhile.
            return Again(_STALE_SECONDS)
        return Again(self._choose_requeue(result.credentials, self._teams.get(key)))

    def _choose_requeue(self, credentials: ConditionFinding, team: _Team | None = None) -> float:
        """Return the seconds until Secret and team are read again: fewer if either is wrong."""
        settings = self._settings.provider
        is_valid = credentials.status and (team is None or team.exists)
        return settings.resync if is_valid else settings.requeue_invalid

    async def _evaluate(self, config: ProviderConfig) -> Evaluation:
        """Check the spec, the credentials Secret, the team and the pools of a ProviderConfig."""
        findings: list[ConditionFinding] = []
        namespaces = self._settings.pool.namespaces
        # Only the first problem is reported. The team is read live, so it is checked last.
        problem = evaluation.find_refused_namespace(config, namespaces)
        problem = problem or evaluation.find_contradiction(config)
        problem = problem or await self._find_team_problem(config)
        if problem is not None:
            findings.append(problem)
        capacity = None
        evaluated_pools = evaluation.evaluate_pools(
            config, self._pools.get, unreadable=self._pools.unreadable, namespaces=namespaces
        )
        if evaluated_pools is not None:
            pool_finding, capacity = evaluated_pools
            findings.append(pool_finding)
        return Evaluation(await self._find_credentials(config), tuple(findings), capacity)

    async def _find_credentials(self, config: ProviderConfig) -> ConditionFinding:
        """Return the condition of the credentials; read their Secret once per requeue."""
        reference = config.spec.credentialsRef
        if reference is None:
            # A local provider needs no Secret. For others a missing reference is a missing Secret.
            keys = () if config.spec.provider == LOCAL else None
            return evaluation.judge_credentials(config, "(no credentialsRef)", keys)
        where = Key(reference.namespace or config.metadata.namespace, reference.name)
        key, now = config.metadata.key, self._clock.monotonic()
        last_read = self._secrets.get(key)
        # Pools change often, Secrets hardly ever: a pass that a pool's event starts reads no
        # Secret.
        if last_read is not None and last_read.generation == config.metadata.generation:
            fresh_seconds = _FRESH_SHARE * self._choose_requeue(last_read.finding)
            if now - last_read.read_at < fresh_seconds:
                return last_read.finding
        finding = await self._read_secret(config, where)
        self._secrets[key] = _ReadSecret(config.metadata.generation, now, finding)
        return finding

    async def _read_secret(self, config: ProviderConfig, where: Key) -> ConditionFinding:
        """Read the credentials Secret live; return the CredentialsValid condition.

        404 and 403 become conditions; any other error is raised.
        """
        try:
            secret = await self._client.get(SECRET, where)
        except NotFound:
            return evaluation.judge_credentials(config, str(where), keys=None)
        except Forbidden:
            return evaluation.make_secret_forbidden(str(where))
        keys_with_value = [key for key, value in secret.data.items() if value]
        return evaluation.judge_credentials(config, str(where), keys_with_value)

    async def _find_team_problem(self, config: ProviderConfig) -> ConditionFinding | None:
        """Return the Ready condition of a provider whose team does not exist; else None.

        The team is read as often as the Secret of the provider.
        """
        name = evaluation.get_team_name(config)
        if not name:
            self._teams.pop(config.metadata.key, None)
            return None  # it serves all teams
        now, team = self._clock.monotonic(), self._teams.get(config.metadata.key)
        if team is None or team.name != name or now - team.read_at >= team.fresh_seconds:
            exists = await self._has_team(name)
            settings = self._settings.provider
            requeue = settings.resync if exists else settings.requeue_invalid
            fresh_seconds = _FRESH_SHARE * requeue
            team = _Team(name, exists, read_at=now, fresh_seconds=fresh_seconds)
            self._teams[config.metadata.key] = team
        return None if team.exists else evaluation.make_team_unknown(name)

    async def _has_team(self, name: str) -> bool:
        """Return False only if a live read shows that the Team does not exist.

        Another platform defines the kind Team, and the API server need not serve it. Without a
        positive answer the provider is not blamed.

        Raises:
            ControllerError: the API server did not answer.
        """
        try:
            await self._client.get(TEAM, Key("", name))
        except NotFound as missing:
            # A 404 with another reason says that the kind Team is not served.
            return missing.reason != "NotFound"
        except Forbidden:
            return True  # we may not read Teams, so nothing is known
        return True

    async def _write_status(self, config: ProviderConfig, result: Evaluation) -> None:
        """Patch the status if it differs, and record events of conditions that turned False."""
        change = self._make_change(config, result)
        if not change:
            return
        written = await self._client.patch_status(PROVIDER_CONFIG, config, change)
        self._record_warnings(config, written, result)

    def _make_change(self, config: ProviderConfig, result: Evaluation) -> dict[str, Any]:
        """Return the status patch; empty if the status shows the result already.

        The times of validation and of the last probe change only together with a result.
        Otherwise a provider at rest would be written every few minutes.
        """
        now, status = self._clock.now(), config.status
        is_valid = result.credentials.status
        # `make_overall` replaces the Ready conditions of single problems.
        findings = [result.credentials, *(f for f in result.findings if f.type != "Ready")]
        conditions_before = status.conditions
        if result.capacity is None:
            # Outside IPAM mode the pools do not matter.
            conditions_before = remove_condition(conditions_before, evaluation.POOL_AVAILABLE)
        conditions = with_findings(
            conditions_before,
            [*findings, evaluation.make_overall(result)],
            generation=config.metadata.generation,
            now=now,
        )
        change: dict[str, Any] = {}
        if render_conditions(conditions) != render_conditions(status.conditions):
            change["conditions"] = render_conditions(conditions)
        # Both fields report the credentials alone; the condition Ready reports all problems.
        if status.validated != is_valid or status.ready != is_valid:
            change |= {"validated": is_valid, "ready": is_valid}
            if is_valid:
                change["lastValidationTime"] = format_rfc3339(now)
        if result.capacity != status.capacity:
            # None removes the field: the patch is a JSON merge patch (RFC 7386).
            capacity = result.capacity
            change["capacity"] = capacity.to_patch(status.capacity) if capacity else None
        if change:
            change["lastProbeTime"] = format_rfc3339(now)
        return change

    def _record_warnings(
        self, before: ProviderConfig, after: ProviderConfig, result: Evaluation
    ) -> None:
        """Record a warning event for each condition that has just turned to False.

        A condition that was absent or Unknown before counts as just turned.
        """
        for finding, reason in (
            (result.credentials, "CredentialsInvalid"),
            *(
                (finding, evaluation.EVENT_REASONS[finding.reason])
                for finding in result.findings
                if finding.reason in evaluation.EVENT_REASONS
            ),
        ):
            condition_before = find_condition(before.status.conditions, finding.type)
            was_false = condition_before is not None and condition_before.status == "False"
            if not finding.status and not was_false:
                self._recorder.record(
                    PROVIDER_CONFIG, after, "Warning", reason, finding.message, action="Validate"
                )

    async def _reconcile_deleted(self, config: ProviderConfig) -> Outcome:
        """Remove the finalizer once a live LIST shows no TenantCluster that refers to it.

        An unreadable TenantCluster may refer to it, unless its reference can be decoded.
        """
        if not has_finalizer(config, names.FINALIZER_PROVIDER):
            return SETTLED  # the finalizer is removed already, or was never added
        # If the cache shows a cluster that refers to it, no LIST is needed. The converse does not
        # hold: the cache may be behind, so only a LIST shows that no cluster refers to it.
        if any(self._refers(cluster, config) for cluster in self._clusters):
            return Blocked("InUse", self._settings.provider.requeue_deleting)
        page = await self._client.list(TENANT_CLUSTER)
        unreadable = [
            key for key, failure in page.unreadable.items() if self._may_refer(failure, config)
        ]
        if unreadable:
            return await self._wait_for_unreadable(config, sorted(unreadable))
        self._state_log.end(config.metadata.key, _UNREADABLE)
        if any(self._refers(cluster, config) for cluster in page.items):
            return Blocked("InUse", self._settings.provider.requeue_deleting)
        await remove_finalizer(self._client, PROVIDER_CONFIG, config, names.FINALIZER_PROVIDER)
        return SETTLED

    async def _wait_for_unreadable(
        self, config: ProviderConfig, clusters: Sequence[Key]
    ) -> Outcome:
        """Report the unreadable TenantClusters that may refer to a deleted ProviderConfig.

        Returns:
            The outcome that retries the deletion later.
        """
        unreadable = [UnreadableObject(TENANT_CLUSTER.kind, cluster) for cluster in clusters]
        reason = describe_unreadable(unreadable)
        key = config.metadata.key
        if self._state_log.begin(key, _UNREADABLE, reason):
            _log.warning("deleted ProviderConfig stays", provider=str(key), reason=reason)
        finding = evaluation.make_clusters_unreadable(reason)
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
        """Return whether an unreadable TenantCluster names a ProviderConfig, or may name it.

        Args:
            failure: why the TenantCluster cannot be decoded, with what could be decoded.
        """
        outline = read_outline(failure)
        return not isinstance(outline, ClusterOutline) or self._refers(outline, config)

    def _refers(self, cluster: TenantCluster | ClusterOutline, config: ProviderConfig) -> bool:
        """Return whether a cluster names the provider in its spec.

        A cluster without a reference uses the platform's default. The cluster does not keep the
        default from being deleted.
        """
        return refers_to(cluster, config, self._settings.namespace, by_default=False)
