"""The rules find proven violations, and nothing that is not proven."""

from dataclasses import dataclass
from typing import Any

from allocator import AddressRange
from controller.meta import Key
from tests.audit import rules
from tests.audit.history import History, Observation
from tests.audit.records import Addresses, Holding, Promise, Promises, Records

A, B = Key("team", "a"), Key("team", "b")
BLOCK = AddressRange.parse_cidr("10.40.0.0/28")
RANGE = AddressRange.parse("10.40.0.0", "10.40.0.3")
FIRST = AddressRange.parse("10.40.0.0", "10.40.0.0")
FOREVER = 100.0


class Scenario:
    """Two tenants, and objects that exist from `begin` to `end`, in seconds.

    Observers notice each change at once.
    """

    def __init__(self) -> None:
        self.records = Records.for_tenants([A, B])
        self._facts: dict[int, list[_Fact]] = {}
        self.promise(begin=0.0)

    def hold(
        self,
        tenant: Key,
        *,
        begin: float = 0.0,
        end: float = FOREVER,
        name: str = "lb",
        for_services: bool = True,
    ) -> None:
        """Let an allocation of a tenant hold RANGE."""
        value = Holding(tenant, RANGE, for_services)
        self._put(self.records.allocations, name, value=value, begin=begin, end=end)

    def promise(self, *promises: Promise, begin: float, end: float = FOREVER) -> None:
        """Let the pool `lab` have these promises."""
        self._put(self.records.pools, "lab", value=Promises(BLOCK, promises), begin=begin, end=end)

    def show(self, tenant: Key, *, begin: float = 0.0, end: float = FOREVER) -> None:
        """Let the Service `web` of a tenant show FIRST."""
        self._put(
            self.records.tenants[tenant].services, "web", value=(FIRST,), begin=begin, end=end
        )

    def pool(self, tenant: Key, entries: Addresses, *, end: float = FOREVER) -> None:
        """Let the pool of a tenant's load balancer have these entries."""
        self._put(
            self.records.tenants[tenant].pools, "default-pool", value=entries, begin=0.0, end=end
        )

    def findings(self) -> list[str]:
        """Return the findings about all facts."""
        histories: list[History[Any]] = list(self.records.list_histories())
        for history in histories:
            _note_facts(history, self._facts.get(id(history), []))
        return rules.list_findings(self.records)

    def _put(
        self, history: History[Any], name: str, value: object, begin: float, end: float
    ) -> None:
        self._facts.setdefault(id(history), []).append(_Fact(name, value, begin=begin, end=end))


@dataclass(frozen=True)
class _Fact:
    """An object that exists from `begin` to `end`, in seconds."""

    name: str
    value: object
    begin: float
    end: float


def _note_facts(history: History[Any], facts: list[_Fact]) -> None:
    """Note a LIST right before and right after each change, and the event of the change."""
    moments = sorted({moment for fact in facts for moment in (fact.begin, fact.end)})

    def sighting(fact: _Fact) -> Observation[object]:
        uid = f"{fact.name}-{fact.begin:.0f}"
        return Observation(
            Key("ns", fact.name), uid, revision=10 * moments.index(fact.begin), value=fact.value
        )

    for number, moment in enumerate(moments):
        before = [sighting(fact) for fact in facts if fact.begin < moment <= fact.end]
        history.note_list(moment, moment, revision=10 * number - 5, items=before)
        for fact in facts:
            if fact.begin == moment:
                history.note_event(moment, sighting(fact))
            if fact.end == moment:
                history.note_deletion(moment, sighting(fact).uid)
        after = [sighting(fact) for fact in facts if fact.begin <= moment < fact.end]
        history.note_list(moment, moment, revision=10 * number + 5, items=after)


def test_a_service_with_an_address_that_its_tenant_holds_is_no_finding() -> None:
    scenario = Scenario()
    scenario.hold(A, end=60)
    scenario.show(A, begin=5, end=60)
    scenario.pool(A, (RANGE,), end=60)
    assert scenario.findings() == []


def test_an_address_that_is_shown_while_it_is_free_is_found() -> None:
    scenario = Scenario()
    scenario.hold(A, end=60)
    scenario.show(A, begin=5, end=60.25)
    (finding,) = scenario.findings()
    assert finding.startswith(
        "for at least 250 ms: 10.40.0.0/32 is shown by Service ns/web of team/a"
    )
    assert finding.endswith("while held by no allocation")


def test_an_address_that_is_shown_while_another_tenant_holds_it_is_found() -> None:
    scenario = Scenario()
    scenario.hold(A, end=60)
    scenario.hold(B, begin=60, name="other")
    scenario.show(A, end=61)
    (finding,) = scenario.findings()
    assert finding.startswith("for at least 1000 ms: 10.40.0.0/32 is shown by Service ns/web")
    assert finding.endswith("while held by other of team/b")


def test_a_service_that_shows_an_address_of_an_allocation_for_nodes_is_found() -> None:
    scenario = Scenario()
    scenario.hold(A, for_services=False)
    scenario.show(A, begin=5, end=6)
    assert len(scenario.findings()) == 1


def test_an_address_in_a_metallb_pool_is_found_when_it_is_free() -> None:
    scenario = Scenario()
    scenario.hold(A, end=60)
    scenario.pool(A, (RANGE,), end=61)
    (finding,) = scenario.findings()
    assert "10.40.0.0/30 is in pool ns/default-pool of team/a" in finding


def test_an_address_outside_all_networkpools_is_no_finding() -> None:
    scenario = Scenario()
    scenario.pool(A, (AddressRange.parse_cidr("192.168.0.0/24"),))
    assert scenario.findings() == []


def test_an_address_that_two_allocations_hold_is_found() -> None:
    scenario = Scenario()
    scenario.hold(A, end=60)
    scenario.hold(B, begin=59, name="other")
    (finding,) = scenario.findings()
    assert "10.40.0.0/30 is held by lb of team/a, 10.40.0.0/30 by other of team/b" in finding


def test_an_address_promised_to_one_and_held_by_another_is_found() -> None:
    scenario = Scenario()
    scenario.hold(A, end=60)
    scenario.promise(Promise("another-uid", RANGE), begin=59, end=60)
    (finding,) = scenario.findings()
    assert "by a promise of lab to another-uid" in finding


def test_a_promise_to_the_holder_of_the_range_is_no_finding() -> None:
    scenario = Scenario()
    scenario.hold(A)
    scenario.promise(Promise("lb-0", RANGE), begin=1, end=2)
    assert scenario.findings() == []


def test_one_address_on_services_of_two_tenants_is_found() -> None:
    scenario = Scenario()
    scenario.hold(A, end=60)
    scenario.hold(B, begin=60, name="other")
    scenario.show(A, end=62)
    scenario.show(B, begin=61)
    assert any(
        "is shown by Service ns/web of team/a, 10.40.0.0/32 by" in f for f in scenario.findings()
    )


def test_a_release_within_the_uncertainty_of_a_list_is_no_finding() -> None:
    """The range was free at 60 s; the LIST that last showed the Service was sent at 59.9 s."""
    scenario = Scenario()
    scenario.hold(A, end=60)
    services = scenario.records.tenants[A].services
    addresses: Observation[Addresses] = Observation(
        Key("ns", "web"), "web", revision=1, value=(FIRST,)
    )
    services.note_list(1.0, 1.1, revision=1, items=[addresses])
    services.note_list(59.9, 60.2, revision=1, items=[addresses])
    services.note_deletion(60.3, "web")
    assert scenario.findings() == []
