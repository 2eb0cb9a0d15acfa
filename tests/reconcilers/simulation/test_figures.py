"""The law on figures notices a status that is not written again, for each kind with a status."""

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import figurerules as rules
from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.claims import Claims
from tests.reconcilers.simulation.clusters import ClusterClaims
from tests.reconcilers.simulation.networkpools import NetworkPools
from tests.reconcilers.simulation.networks import Networks
from tests.reconcilers.simulation.plans import RESTING, Plan
from tests.reconcilers.simulation.sharedpools import SharedPools
from tests.reconcilers.simulation.switch import Switch, check_switch

RULE, SIGN = "figures that differ are written", "in its status, but the objects say"
FAMILIES = Plan(families=True)

SWITCHES: dict[str, tuple[type[Adapter], Switch]] = {
    "networkpools": (
        NetworkPools,
        Switch(RULE, rules.keep_networkpool_figures, SIGN, seed=35),
    ),
    "both families": (
        NetworkPools,
        Switch(RULE, rules.keep_networkpool_figures, sign=SIGN, plan=FAMILIES, seed=12),
    ),
    "shared": (
        SharedPools,
        Switch(RULE, rules.keep_networkpool_figures, SIGN, seed=11),
    ),
    "claims": (Claims, Switch(RULE, rules.keep_claim_pool_figures, SIGN)),
    "clusters": (
        ClusterClaims,
        Switch(RULE, rules.keep_claim_pool_figures, sign=SIGN, plan=RESTING),
    ),
    "networks": (Networks, Switch(RULE, rules.keep_network_figures, SIGN)),
}


@pytest.mark.parametrize("kind", SWITCHES)
def test_figures_that_are_not_written_again_are_noticed(kind: str, record_property: Note) -> None:
    adapter, switch = SWITCHES[kind]
    check_switch(switch, lambda seed: Run(adapter, seed, switch.plan).play(), record_property)
