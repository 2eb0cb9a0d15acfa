"""The tenants' simulation with Cilium's adapter and a stand-in for LB-IPAM."""

from functools import partial

import pytest

from tests.reconcilers.simulation.ciliumtenancy import CiliumTenancy
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part
from tests.reconcilers.simulation.tenancy import FAMILIES, FORCE, Faults


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("faults", "options"),
    [(Faults(), ""), (FORCE, "--force"), (FAMILIES, "--families")],
    ids=["plain", "vanishing", "families"],
)
def test_no_address_is_offered_wrongly_and_every_one_is_released(
    faults: Faults, options: str, part: int
) -> None:
    model = partial(CiliumTenancy, faults=faults)
    check_part(model, SEEDS // 4, part, f"cilium {{}} {options}")
