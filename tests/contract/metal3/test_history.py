"""The history of claims finds addresses of two claims, and claims of two addresses."""

from tests.contract.metal3.history import ClaimHistory


def test_a_history_finds_an_address_of_two_claims_and_a_claim_of_two_addresses() -> None:
    history = ClaimHistory()

    def note(event: str, name: str, revision: int, address: str) -> None:
        meta = {"name": name, "uid": name, "resourceVersion": str(revision)}
        history.note(
            "IPClaim", event, {"metadata": meta, "status": {"address": {"name": address}}}
        )

    note("MODIFIED", "a", 1, "p-1")
    note("MODIFIED", "b", 3, "p-1")
    note("DELETED", "a", 2, "p-1")
    assert history.list_findings() == []
    note("MODIFIED", "c", 4, "p-1")
    note("DELETED", "b", 5, "p-1")
    assert history.list_findings() == ["p-1 of IPClaim b b was given to IPClaim c c, too"]
    note("MODIFIED", "c", 6, "p-2")
    assert history.list_findings()[0] == "IPClaim c c had p-1, then p-2"
