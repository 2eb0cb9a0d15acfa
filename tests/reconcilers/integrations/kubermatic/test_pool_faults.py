"""An IPAMPool that KKP refuses is refused by the webhook and reported by the command `check`."""

from pathlib import Path

import pytest

from controller.client import Client
from controller.meta import ObjectMeta
from reconcilers.integrations.kubermatic.api import Datacenter, IPAMPool, KkpPoolSpec
from reconcilers.integrations.kubermatic.rules import UNNAMED_DATACENTER, list_faults
from reconcilers.integrations.kubermatic.validating import IPAMPoolValidator
from reconcilers.spaces.index import SpaceIndex
from tests.reconcilers.cli.test_platforms import PREFIX, make_ipam_pool, run_on_saved

GOOD = Datacenter("prefix", "10.2.0.0/28", 30)


def make_pool(**datacenters: Datacenter) -> IPAMPool:
    """Return IPAMPool `metallb` with the settings of some datacenters."""
    return IPAMPool(ObjectMeta("metallb", ""), KkpPoolSpec(datacenters))


@pytest.fixture
def validator() -> IPAMPoolValidator:
    """Return the validator of a webhook; there are no other pools."""
    return IPAMPoolValidator(Client.__new__(Client), SpaceIndex())  # no request is sent


def test_check_reports_an_exclusion_of_another_length_in_the_words_of_the_webhook(
    tmp_path: Path,
) -> None:
    datacenter = Datacenter(
        "prefix", "10.2.0.0/28", allocationPrefix=30, excludePrefixes=("10.2.0.0/29",)
    )
    (fault,) = list_faults(make_pool(dc=datacenter))
    wrong_pool = make_ipam_pool("metallb", dc={**PREFIX, "excludePrefixes": ["10.2.0.0/29"]})
    report = run_on_saved(tmp_path, "check -o yaml", wrong_pool).out
    assert f"datacenter dc: {fault}" in " ".join(report.replace("''", "'").split())


async def test_a_datacenter_without_a_name_is_refused_and_reported(
    tmp_path: Path, validator: IPAMPoolValidator
) -> None:
    verdict = await validator.review_creation(make_pool(**{"": GOOD}))
    assert verdict.refusal == UNNAMED_DATACENTER
    new, old = make_pool(dc=GOOD, **{"": GOOD}), make_pool(dc=GOOD)
    verdict = await validator.review_update(new, old)
    assert verdict.refusal == UNNAMED_DATACENTER
    report = run_on_saved(tmp_path, "check -o yaml", make_ipam_pool("metallb", **{"": PREFIX})).out
    assert UNNAMED_DATACENTER in " ".join(report.split())


async def test_a_stored_pool_with_a_datacenter_without_a_name_may_be_updated(
    validator: IPAMPoolValidator,
) -> None:
    stored = make_pool(**{"": GOOD})
    assert not (await validator.review_update(stored, stored)).refusal
