"""Whether a provider can be used, what it still holds, and which one counts for a tenant."""

from typing import Any

import pytest

from controller.errors import Forbidden
from controller.outcome import SETTLED, Again, Blocked
from reconcilers.providerconfig.evaluation import REQUIRED_KEYS
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Json

COUNTS = ("totalIPs", "allocatedIPs", "availableIPs", "largestFreeBlock")
CREDENTIALS = {"credentialsRef": {"name": "creds"}}


def _make_lab(provider: Any, *pools: Any) -> Lab:
    lab = Lab()
    for pool in pools:
        lab.server.add("networkpools", pool)
    lab.server.add("providerconfigs", provider)
    return lab


def _make_pool(name: str = "lab", available: int = 100, **spec: Any) -> Any:
    status = {"availableIPs": available, "observedGeneration": 1}
    return make.pool(name, status=status, **spec)


def _make_secret(lab: Lab, *keys: str, namespace: str = make.NAMESPACE) -> None:
    meta = {"name": "creds", "namespace": namespace}
    lab.server.add("secrets", {"metadata": meta, "data": dict.fromkeys(keys, "eA==")})


def _read_condition(lab: Lab, kind: str) -> tuple[str, str, str]:
    condition = lab.find_condition("providerconfigs", "default", kind)
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


@pytest.mark.parametrize("kind", sorted(REQUIRED_KEYS))
async def test_credentials_are_valid_with_all_keys_of_their_provider(kind: str) -> None:
    spec: Json = {"provider": kind, "network": {"mode": "cloud"}}
    lab = _make_lab(make.provider(spec=spec | (CREDENTIALS if REQUIRED_KEYS[kind] else {})))
    _make_secret(lab, *REQUIRED_KEYS[kind])
    assert await lab.run_provider_pass() == Again(300.0)
    assert _read_condition(lab, "CredentialsValid") == ("True", "Ready", "credentials validated")
    status = lab.read_status("providerconfigs", "default")
    assert (status["ready"], status["validated"]) == (True, True)
    assert status["lastValidationTime"] == status["lastProbeTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("harvester", "kubeconfig"),
        ("nutanix", "username password"),
        ("proxmox", "username password"),
        ("azure", "clientID clientSecret tenantID"),
        ("aws", "accessKeyID secretAccessKey"),
        ("gcp", "serviceAccountKey"),
    ],
)
async def test_missing_keys_are_named(kind: str, missing: str) -> None:
    lab = _make_lab(
        make.provider(spec={"provider": kind, "network": {"mode": "cloud"}} | CREDENTIALS)
    )
    _make_secret(lab, "other")
    assert await lab.run_provider_pass() == Again(30.0)
    message = f"secret missing required keys: [{missing}]"
    assert _read_condition(lab, "CredentialsValid") == ("False", "CredentialsInvalid", message)
    assert lab.recorded.events == [("Warning", "CredentialsInvalid", message)]
    assert lab.read_status("providerconfigs", "default")["ready"] is False


async def test_a_missing_secret_is_reported_and_found_when_it_is_created() -> None:
    spec = {"provider": "aws", "network": {"mode": "cloud"}}
    spec |= {"credentialsRef": {"name": "creds", "namespace": "vault"}}
    lab = _make_lab(make.provider(spec=spec))
    await lab.run_provider_pass()
    assert (
        _read_condition(lab, "CredentialsValid")[2] == "credentials secret vault/creds not found"
    )
    _make_secret(lab, "accessKeyID", "secretAccessKey", namespace="vault")
    await lab.clock.advance(30)
    await lab.run_provider_pass()
    assert _read_condition(lab, "CredentialsValid")[0] == "True"
    assert lab.recorded.reasons == ["CredentialsInvalid"]


async def test_a_secret_that_may_not_be_read_is_reported_and_stops_nothing_else() -> None:
    provider = make.provider("lab", spec={"provider": "aws"} | CREDENTIALS | _ipam("lab"))
    lab = _make_lab(provider, _make_pool())
    lab.server.fail(Forbidden(403, "Forbidden", "no"), plural="secrets")
    await lab.run_provider_pass()
    assert _read_condition(lab, "CredentialsValid")[2].startswith(
        "credentials secret butler-system/creds may not be read"
    )
    assert _read_condition(lab, "PoolAvailable")[0] == "True"


def _ipam(*pools: str, **network: Any) -> Json:
    refs = [{"name": name} for name in pools]
    return {"network": {"mode": "ipam", "poolRefs": refs} | network}


async def test_times_move_only_with_a_result_and_rest_costs_one_look_per_resync() -> None:
    spec = {"provider": "aws"} | CREDENTIALS | _ipam("lab")
    lab = _make_lab(make.provider(spec=spec), _make_pool())
    _make_secret(lab, "accessKeyID", "secretAccessKey")
    await lab.run_provider_pass()
    lab.server.requests.clear()
    for _ in range(10):
        await lab.run_provider_pass()
    assert lab.server.requests == []
    await lab.clock.advance(300)
    await lab.run_provider_pass()
    assert [(r.verb, r.plural) for r in lab.server.requests] == [("get", "secrets")]
    assert lab.read_status("providerconfigs", "default")["lastProbeTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("balancer", "defaults", "available", "tenants"),
    [
        ({}, None, 100, 7),
        ({"defaultPoolSize": 5}, None, 100, 10),
        ({}, {"nodesPerTenant": 2, "lbPoolPerTenant": 1}, 100, 10),
        ({"allocationMode": "elastic"}, None, 100, 14),
        ({}, None, 12, 0),
    ],
)
async def test_capacity_is_estimated_from_the_pools_own_defaults(
    balancer: Json, defaults: Json | None, available: int, tenants: int
) -> None:
    pool = _make_pool(available=available, tenant={"defaults": defaults} if defaults else None)
    lab = _make_lab(make.provider("lab", load_balancer=balancer), pool)
    await lab.run_provider_pass()
    assert lab.read_status("providerconfigs", "default")["capacity"] == {
        "availableIPs": available,
        "estimatedTenants": tenants,
    }
    message = f"{available} IPs available (~{tenants} tenants)"
    assert _read_condition(lab, "PoolAvailable") == ("True", "PoolAvailable", message)


async def test_tenants_are_estimated_as_the_quota_cuts_them() -> None:
    quota = {"maxNodeIPs": 3, "maxLoadBalancerIPs": 2}
    lab = _make_lab(make.provider("lab", quota=quota), _make_pool(available=100))
    await lab.run_provider_pass()
    assert lab.read_status("providerconfigs", "default")["capacity"]["estimatedTenants"] == 20


async def test_tenants_are_estimated_pool_by_pool_since_none_spans_two() -> None:
    lab = _make_lab(make.provider("one", "two"), _make_pool("one", 20), _make_pool("two", 20))
    await lab.run_provider_pass()
    capacity = lab.read_status("providerconfigs", "default")["capacity"]
    assert capacity == {"availableIPs": 40, "estimatedTenants": 2}, "and not 40 // 13 = 3"


async def test_exhausted_pools_are_reported_with_one_event() -> None:
    lab = _make_lab(make.provider("lab"), _make_pool(available=0))
    for _ in range(2):
        await lab.run_provider_pass()
    message = "all configured pools are exhausted"
    assert _read_condition(lab, "PoolAvailable") == ("False", "PoolExhausted", message)
    assert lab.recorded.events == [("Warning", "PoolsExhausted", message)]


async def test_ipam_without_pools_is_reported() -> None:
    lab = _make_lab(make.provider())
    await lab.run_provider_pass()
    message = "network.mode is 'ipam' but no poolRefs configured"
    assert _read_condition(lab, "PoolAvailable") == ("False", "ValidationFailed", message)


async def test_leaving_ipam_mode_takes_condition_and_capacity_away() -> None:
    lab = _make_lab(make.provider("lab"), _make_pool())
    await lab.run_provider_pass()
    lab.server.edit("providerconfigs", "default", {"spec": {"network": {"mode": "cloud"}}})
    await lab.run_provider_pass()
    assert _read_condition(lab, "PoolAvailable") == ("", "", "")
    assert "capacity" not in lab.read_status("providerconfigs", "default")


async def test_numbers_never_exceed_what_the_schema_takes() -> None:
    pools = [_make_pool(f"p{n}", 2**31 - 1) for n in range(3)]
    lab = _make_lab(make.provider("p0", "p1", "p2"), *pools)
    await lab.run_provider_pass()
    assert lab.read_status("providerconfigs", "default")["capacity"]["availableIPs"] == 2**31 - 1


def _two(name: str, four: int, six: int) -> Any:
    large = {"exactCounts": dict.fromkeys(COUNTS, str(six))} if six > 2**31 - 1 else {}
    counted = {"availableIPs": min(six, 2**31 - 1), **large}
    status = {"availableIPs": four, "secondary": counted, "observedGeneration": 1}
    return make.pool(name, status=status, secondary={"cidr": "fd00::/64"})


async def test_capacity_is_reported_for_each_family_where_pools_have_two() -> None:
    lab = _make_lab(make.provider("one", "two"), _two("one", 20, 2**64), _make_pool("two", 20))
    await lab.run_provider_pass()
    assert lab.read_status("providerconfigs", "default")["capacity"] == {
        "availableIPs": 40,
        "estimatedTenants": 2,
        "families": [
            {"family": "IPv4", "availableIPs": 40, "estimatedTenants": 2},
            {
                "family": "IPv6",
                "availableIPs": 2**31 - 1,
                "exactAvailableIPs": str(2**64),
                "estimatedTenants": 2**31 - 1,
            },
        ],
    }
    message = (
        f"40 IPv4 IPs available (~2 tenants), {2**64} IPv6 IPs available (~{2**64 // 13} tenants)"
    )
    assert _read_condition(lab, "PoolAvailable") == ("True", "PoolAvailable", message)
    lab.server.requests.clear()
    await lab.run_provider_pass()
    assert lab.server.requests == []
    lab.server.edit("networkpools", "one", {"spec": {"secondary": None}})
    await lab.run_provider_pass()
    capacity = lab.read_status("providerconfigs", "default")["capacity"]
    assert capacity == {"availableIPs": 40, "estimatedTenants": 2}


async def test_pools_with_one_full_family_are_available_and_with_both_full_exhausted() -> None:
    lab = _make_lab(make.provider("one"), _two("one", 0, 13))
    await lab.run_provider_pass()
    assert _read_condition(lab, "PoolAvailable")[:2] == ("True", "PoolAvailable")
    lab.server.edit("networkpools", "one", {"status": {"secondary": {"availableIPs": 0}}})
    await lab.run_provider_pass()
    assert _read_condition(lab, "PoolAvailable")[:2] == ("False", "PoolExhausted")


async def test_team_scope_without_a_team_is_reported() -> None:
    lab = _make_lab(make.provider("lab", spec={"provider": "local", "scope": {"type": "team"}}))
    await lab.run_provider_pass()
    assert _read_condition(lab, "Ready")[:2] == ("False", "ValidationFailed")


@pytest.mark.parametrize("kind", ["aws", "azure", "gcp"])
async def test_a_cloud_without_its_settings_is_reported(kind: str) -> None:
    spec = {"provider": kind, "network": {"mode": "cloud"}} | CREDENTIALS
    lab = _make_lab(make.provider(spec=spec))
    _make_secret(lab, *REQUIRED_KEYS[kind])
    await lab.run_provider_pass()
    status, reason, message = _read_condition(lab, "Ready")
    assert (status, reason) == ("False", "ValidationFailed")
    assert f"spec.{kind}: {kind} settings are required" in message
    assert _read_condition(lab, "CredentialsValid")[0] == "True"


async def test_ipam_in_a_cloud_is_reported() -> None:
    spec = {"provider": "aws", "aws": {"region": "eu-1"}} | CREDENTIALS | _ipam("lab")
    lab = _make_lab(make.provider(spec=spec), _make_pool())
    _make_secret(lab, *REQUIRED_KEYS["aws"])
    await lab.run_provider_pass()
    assert _read_condition(lab, "Ready") == (
        "False",
        "ValidationFailed",
        "validation errors: spec.network.mode: IPAM mode is not supported for cloud providers",
    )


async def test_a_sound_provider_is_ready_and_a_mended_one_becomes_so() -> None:
    unsound = make.provider("lab", spec={"provider": "local", "scope": {"type": "team"}})
    lab = _make_lab(unsound, _make_pool())
    await lab.run_provider_pass()
    assert _read_condition(lab, "Ready")[0] == "False"
    lab.server.edit("providerconfigs", "default", {"spec": {"scope": None}})
    await lab.run_provider_pass()
    assert _read_condition(lab, "Ready") == ("True", "Ready", "the provider can be used")


async def test_where_one_key_is_enough_the_reference_may_name_it() -> None:
    spec: Json = {"provider": "gcp", "gcp": {"projectID": "p", "region": "r"}}
    spec |= {"credentialsRef": {"name": "creds", "key": "sa.json"}, "network": {"mode": "cloud"}}
    lab = _make_lab(make.provider(spec=spec))
    _make_secret(lab, "serviceAccountKey")
    await lab.run_provider_pass()
    assert _read_condition(lab, "CredentialsValid")[2] == "secret missing required keys: [sa.json]"
    _make_secret(lab, "sa.json")
    await lab.clock.advance(30)
    await lab.run_provider_pass()
    assert _read_condition(lab, "CredentialsValid")[0] == "True"


async def test_a_key_without_a_value_is_missing() -> None:
    lab = _make_lab(
        make.provider(spec={"provider": "aws", "network": {"mode": "cloud"}} | CREDENTIALS)
    )
    meta = {"name": "creds", "namespace": make.NAMESPACE}
    data = {"accessKeyID": "eA==", "secretAccessKey": ""}
    lab.server.add("secrets", {"metadata": meta, "data": data})
    await lab.run_provider_pass()
    assert (
        _read_condition(lab, "CredentialsValid")[2]
        == "secret missing required keys: [secretAccessKey]"
    )


class TestTeams:
    """A provider for one team needs that team, where teams are known at all."""

    def _of_a_team(self) -> Lab:
        scope = {"type": "team", "teamRef": {"name": "platform"}}
        lab = _make_lab(
            make.provider("lab", spec={"provider": "local", "scope": scope}), _make_pool()
        )
        lab.server.served = (*lab.server.served, "teams")
        return lab

    async def test_a_missing_team_is_reported_and_noticed_when_it_is_created(self) -> None:
        lab = self._of_a_team()
        assert await lab.run_provider_pass() == Again(30.0)
        reported = "scope.teamRef: Team platform does not exist"
        assert _read_condition(lab, "Ready") == ("False", "ValidationFailed", reported)
        lab.server.add("teams", {"metadata": {"name": "platform"}})
        await lab.clock.advance(30)
        assert await lab.run_provider_pass() == Again(300.0)
        assert _read_condition(lab, "Ready")[0] == "True"

    async def test_teams_are_not_required_where_they_are_not_served(self) -> None:
        lab = self._of_a_team()
        lab.server.served = tuple(k for k in lab.server.served if k != "teams")
        await lab.run_provider_pass()
        assert _read_condition(lab, "Ready")[0] == "True"

    async def test_teams_that_may_not_be_read_are_there(self) -> None:
        lab = self._of_a_team()
        lab.server.fail(Forbidden(403, "Forbidden", "no"), plural="teams")
        await lab.run_provider_pass()
        assert _read_condition(lab, "Ready")[0] == "True"

    async def test_at_rest_a_team_costs_one_look_per_resync_and_no_write(self) -> None:
        lab = self._of_a_team()
        lab.server.add("teams", {"metadata": {"name": "platform"}})
        await lab.run_provider_pass()
        lab.server.requests.clear()
        for _ in range(10):
            await lab.run_provider_pass()
        assert lab.server.requests == []
        await lab.clock.advance(300)
        await lab.run_provider_pass()
        assert [(r.verb, r.plural) for r in lab.server.requests] == [("get", "teams")]

    async def test_a_provider_that_turns_to_another_team_asks_at_once(self) -> None:
        lab = self._of_a_team()
        lab.server.add("teams", {"metadata": {"name": "platform"}})
        await lab.run_provider_pass()
        other = {"spec": {"scope": {"teamRef": {"name": "missing"}}}}
        lab.server.edit("providerconfigs", "default", other)
        await lab.run_provider_pass()
        assert _read_condition(lab, "Ready")[2] == "scope.teamRef: Team missing does not exist"


async def test_the_finalizer_holds_while_a_cluster_refers_to_it() -> None:
    lab = _make_lab(make.provider(finalizers=[]))
    await lab.run_provider_pass()
    spec: Json = {"providerConfigRef": {"name": "default"}}
    lab.server.add("tenantclusters", make.tenant(spec=spec))
    lab.server.delete("providerconfigs", "default")
    assert await lab.run_provider_pass() == Blocked("InUse", 10.0)
    lab.server.vanish("tenantclusters", "a", namespace="team")
    assert await lab.run_provider_pass() == SETTLED
    assert not lab.server.has("providerconfigs", "default")


async def test_a_reference_into_another_namespace_does_not_hold() -> None:
    lab = _make_lab(make.provider(finalizers=["butler.butlerlabs.dev/providerconfig"]))
    spec: Json = {"providerConfigRef": {"name": "default", "namespace": "elsewhere"}}
    lab.server.add("tenantclusters", make.tenant(spec=spec))
    lab.server.delete("providerconfigs", "default")
    assert await lab.run_provider_pass() == SETTLED


async def test_only_a_live_list_lets_a_provider_go() -> None:
    lab = _make_lab(make.provider(finalizers=["butler.butlerlabs.dev/providerconfig"]))
    lab.hold_events("tenantclusters")
    spec: Json = {"providerConfigRef": {"name": "default"}}
    lab.server.add("tenantclusters", make.tenant(spec=spec))
    lab.server.delete("providerconfigs", "default")
    assert await lab.run_provider_pass() == Blocked("InUse", 10.0)


async def test_pools_that_do_not_exist_are_named_and_not_called_exhausted() -> None:
    lab = _make_lab(make.provider("one", "two"))
    for _ in range(2):
        await lab.run_provider_pass()
    message = (
        "no configured pool exists: ProviderConfig butler-system/default names NetworkPools"
        " butler-system/one, butler-system/two, which do not exist"
    )
    assert _read_condition(lab, "PoolAvailable") == ("False", "PoolNotFound", message)
    assert lab.recorded.events == [("Warning", "PoolsNotFound", message)]


@pytest.mark.parametrize(
    ("available", "status", "reason", "begin"),
    [
        (100, "True", "PoolAvailable", "100 IPs available (~7 tenants)"),
        (0, "False", "PoolExhausted", "all configured pools are exhausted"),
    ],
)
async def test_a_pool_that_does_not_exist_is_named_beside_those_that_do(
    available: int, status: str, reason: str, begin: str
) -> None:
    lab = _make_lab(make.provider("lab", "gone"), _make_pool(available=available))
    await lab.run_provider_pass()
    also = (
        "; ProviderConfig butler-system/default names NetworkPool butler-system/gone,"
        " which does not exist"
    )
    assert _read_condition(lab, "PoolAvailable") == (status, reason, begin + also)
