"""A refused request costs a bounded number of writes in each resync; without its rule it does not.

The law is judged in every run of a plan with `lasting_refusals`, so by the tests of each kind with
`--refusals`. Here the rule behind it is switched off.
"""

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.claims import Claims
from tests.reconcilers.simulation.journalrules import retry_refused_requests_at_once
from tests.reconcilers.simulation.kkp import Kkp
from tests.reconcilers.simulation.networkpools import NetworkPools
from tests.reconcilers.simulation.networks import Networks
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.switch import Switch, check_switch

PLAN = Plan(refusals=0.06, lasting_refusals=True)


@pytest.mark.parametrize(
    ("adapter", "seed"),
    [(NetworkPools, 5), (Claims, 2), (Kkp, 7), (Networks, 1)],
    ids=["NetworkPool", "InClusterIPPool", "IPAMPool", "NetworkNamespace"],
)
def test_a_refused_request_costs_few_writes_in_each_resync(
    adapter: type[Adapter], seed: int, record_property: Note
) -> None:
    rule = "a request whose promise was voided is promised nothing for a resync"
    sign = "times in a resync although it is refused"
    switch = Switch(rule, retry_refused_requests_at_once, sign=sign, plan=PLAN, seed=seed)
    check_switch(switch, lambda number: Run(adapter, number, PLAN).play(), record_property)
