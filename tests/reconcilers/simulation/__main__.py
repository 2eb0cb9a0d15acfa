"""Play single seeds, with the log: a failing test names the command.

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
    """Play the seeds of the command line; return 1 if one failed, else 0."""
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
        "--families", action="store_true", help="a pool of two families, and requests for either"
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
    arguments = parser.parse_args()
    with always_checked() as differences:
        failed = _play_seeds(arguments)
    for pool, parts in differences:
        sys.stdout.write(f"kept contents of {pool} were wrong: {parts}\n")
    return min(failed + len(differences), 1)


def _play_seeds(arguments: argparse.Namespace) -> int:
    """Play the seeds; return how many failed."""
    failed, refusals = 0, 0.06 if arguments.refusals else 0.0
    for seed in range(arguments.seed, arguments.to or arguments.seed + 1):
        if adapter := _ADAPTERS.get(arguments.model):
            switched = SWITCHED_BESIDE_OTHERS if adapter is IPPools else SWITCHED
            plan = switched if arguments.switches else Plan()
            plan = replace(
                RESTING if adapter is ClusterClaims else plan,
                replicas=arguments.replicas,
                force=arguments.force,
                shards=arguments.shards,
                families=arguments.families,
                refusals=refusals,
                lasting_refusals=arguments.refusals,
            )
            verdict = Run(adapter, seed, plan).play(silent=arguments.to is not None)
        else:
            faults = FORCE if arguments.force else COUNTING if arguments.counting else None
            faults = FAMILIES if arguments.families else faults
            faults = WAITING if arguments.waiting else faults
            faults = EDITED if arguments.edits else faults
            model = SharedTenancy if arguments.shards else _TENANCIES[arguments.model]
            verdict = model(seed, faults).play(silent=arguments.to is not None)
        if verdict or arguments.to is None:
            sys.stdout.write(f"seed {seed}: {verdict or 'clean'}\n")
        failed += verdict is not None
    return failed


if __name__ == "__main__":
    sys.exit(main())
