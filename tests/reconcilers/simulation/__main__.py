"""Play single seeds, with the log: what a failing test names is seen again here.

python -m tests.reconcilers.simulation pools 42 --replicas 3
python -m tests.reconcilers.simulation pools 42 --replicas 3 --shards 2
python -m tests.reconcilers.simulation claims 42 --force
python -m tests.reconcilers.simulation clusters 42
python -m tests.reconcilers.simulation shared 42
python -m tests.reconcilers.simulation ippools 42 --switches
python -m tests.reconcilers.simulation networks 42
python -m tests.reconcilers.simulation kkp 42
python -m tests.reconcilers.simulation tenants 42
python -m tests.reconcilers.simulation tenants 42 --shards 2
python -m tests.reconcilers.simulation tenants 0 --to 5000 --force
python -m tests.reconcilers.simulation pools 0 --to 5000
"""

import argparse
import sys
from dataclasses import replace

from tests.reconcilers.checked import always_checked
from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.ciliumtenancy import CiliumTenancy
from tests.reconcilers.simulation.claims import Claims
from tests.reconcilers.simulation.clusters import ClusterClaims
from tests.reconcilers.simulation.ippools import IPPools
from tests.reconcilers.simulation.kkp import Kkp
from tests.reconcilers.simulation.memorytenancy import MemoryTenancy
from tests.reconcilers.simulation.networkpools import NetworkPools
from tests.reconcilers.simulation.networks import Networks
from tests.reconcilers.simulation.plans import RESTING, SWITCHED, SWITCHED_BESIDE_OTHERS, Plan
from tests.reconcilers.simulation.sharedpools import SharedPools
from tests.reconcilers.simulation.sharedtenancy import SharedTenancy
from tests.reconcilers.simulation.tenancy import (
    COUNTING,
    EDITED,
    FAMILIES,
    FORCE,
    WAITING,
    Tenancy,
)

_ADAPTERS: dict[str, type[Adapter]] = {
    "pools": NetworkPools,
    "claims": Claims,
    "clusters": ClusterClaims,
    "shared": SharedPools,
    "ippools": IPPools,
    "networks": Networks,
    "kkp": Kkp,
}

_TENANCIES: dict[str, type[Tenancy]] = {
    "tenants": Tenancy,
    "balancer": MemoryTenancy,
    "cilium": CiliumTenancy,
}
"""Tenants with the stand-ins for MetalLB and for LB-IPAM, and with the balancer of tests."""


def main() -> int:
    """Play what the command line asks for; return how many seeds failed, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.reconcilers.simulation")
    parser.add_argument("model", choices=[*_ADAPTERS, *_TENANCIES])
    parser.add_argument("seed", type=int)
    parser.add_argument("--to", type=int, help="play the seeds from SEED up to this one")
    parser.add_argument(
        "--replicas", type=int, default=2, help="of all but the tenants' simulation"
    )
    parser.add_argument(
        "--shards",
        type=int,
        default=0,
        help="so many parts of the pools, which move; of the tenants, each by itself",
    )
    parser.add_argument(
        "--force", action="store_true", help="objects vanish, too, finalizers or not"
    )
    parser.add_argument(
        "--refusals", action="store_true", help="writes of some requests are refused for good"
    )
    parser.add_argument(
        "--counting", action="store_true", help="MetalLB goes by what it read before a pause"
    )
    parser.add_argument(
        "--families", action="store_true", help="a pool of two families, and who asks for either"
    )
    parser.add_argument(
        "--waiting",
        action="store_true",
        help="the balancer shows nothing and is waited for; its kinds come and go",
    )
    parser.add_argument("--edits", action="store_true", help="people change the pools of Cilium")
    parser.add_argument(
        "--switches", action="store_true", help="the integration is switched off and on again"
    )
    asked = parser.parse_args()
    with always_checked() as differences:
        failed = _play_seeds(asked)
    for pool, parts in differences:
        sys.stdout.write(f"kept contents of {pool} were wrong: {parts}\n")
    return min(failed + len(differences), 1)


def _play_seeds(asked: argparse.Namespace) -> int:
    """Play the seeds; return how many failed."""
    failed, refusals = 0, 0.06 if asked.refusals else 0.0
    for seed in range(asked.seed, asked.to or asked.seed + 1):
        if adapter := _ADAPTERS.get(asked.model):
            switched = SWITCHED_BESIDE_OTHERS if adapter is IPPools else SWITCHED
            plan = switched if asked.switches else Plan()
            plan = replace(
                RESTING if adapter is ClusterClaims else plan,
                replicas=asked.replicas,
                force=asked.force,
                shards=asked.shards,
                families=asked.families,
                refusals=refusals,
                lasting_refusals=asked.refusals,
            )
            verdict = Run(adapter, seed, plan).play(silent=asked.to is not None)
        else:
            faults = FORCE if asked.force else COUNTING if asked.counting else None
            faults = FAMILIES if asked.families else faults
            faults = WAITING if asked.waiting else faults
            faults = EDITED if asked.edits else faults
            model = SharedTenancy if asked.shards else _TENANCIES[asked.model]
            verdict = model(seed, faults).play(silent=asked.to is not None)
        if verdict or asked.to is None:
            sys.stdout.write(f"seed {seed}: {verdict or 'clean'}\n")
        failed += verdict is not None
    return failed


if __name__ == "__main__":
    sys.exit(main())
