"""What networks that hand out the same addresses say of each other."""

from datetime import UTC, datetime, timedelta

from controller.meta import ObjectMeta
from reconcilers.integrations.vitistack.api import (
    NetworkAllocation,
    NetworkNamespace,
    NetworkSpec,
    Static,
)
from reconcilers.integrations.vitistack.overlaps import finding, overlaps

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SAME = NetworkSpec("", NetworkAllocation("static", "", Static("10.0.2.0/24", "10.0.2.1")))


def network(number: int) -> NetworkNamespace:
    """Return a network that hands out the same addresses as all others here.

    Args:
        number: the higher, the later it was made, and the earlier its name comes.
    """
    made = BEGIN + timedelta(seconds=number)
    name = f"net-{100 - number}"
    return NetworkNamespace(ObjectMeta(name, "site", name, creationTimestamp=made), SAME)


def test_one_more_of_many_networks_with_the_same_addresses_changes_what_none_of_them_says() -> (
    None
):
    networks = [network(number) for number in range(9)]
    for one in networks[:8]:
        before = finding(overlaps(one, networks[:8]))
        assert finding(overlaps(one, networks)) == before
        assert before.status
        assert before.message.endswith(" and others")


def test_few_networks_with_the_same_addresses_are_all_named() -> None:
    networks = [network(number) for number in range(6)]
    message = finding(overlaps(networks[0], networks)).message
    assert all(str(one.metadata.key) in message for one in networks[1:])
    assert "others" not in message
