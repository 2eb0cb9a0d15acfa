"""The demo with shards: one of two replicas is cut off, and the other takes over its shards."""

from dataclasses import replace

import pytest

from reconcilers.cli.demo import settings
from reconcilers.cli.demo.command import perform
from reconcilers.cli.demo.promises import OverlapWatch, ReleaseWatch
from reconcilers.cli.demo.steps import StoryStep
from reconcilers.cli.demo.story import build_story
from reconcilers.cli.demo.view import NotSeenYet, PlatformView

SHARDS = 4


def check_both_hold_shards(view: PlatformView) -> list[str]:
    """Raise NotSeenYet unless each replica of the demo holds shards; return a line to print."""
    names = {f"butler-ipam-{SHARDS}-{shard}" for shard in range(SHARDS)}
    holders = {lease.spec.holderIdentity for lease in view.leases if lease.metadata.name in names}
    if holders != {replica.name for replica in view.replicas}:
        raise NotSeenYet(f"shards are held by {holders}")
    return [f"all of {sorted(map(str, holders))} hold shards"]


@pytest.mark.long
@pytest.mark.slow
async def test_a_replica_that_is_lost_in_a_burst_is_replaced_where_replicas_share_the_pools(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Both replicas work from the beginning, so they have the same settings.
    alike = dict.fromkeys(settings.REPLICAS, settings.REPLICAS["replica-1"])
    monkeypatch.setattr(settings, "REPLICAS", alike)
    monkeypatch.setattr(settings, "ELECTION", replace(settings.ELECTION, shards=SHARDS))

    def build_short_story(
        overlaps: OverlapWatch, releases: ReleaseWatch, url: str
    ) -> list[StoryStep]:
        steps = build_story(overlaps, releases, url)
        [loss] = [step for step in steps if step.title.startswith("The leader is cut off")]
        shared = StoryStep("Both replicas hold shards", (check_both_hold_shards,))
        no_overlap = StoryStep("No two ranges overlapped", (overlaps.check_no_overlaps,))
        return [shared, *steps[:4], loss, no_overlap]

    await perform(60.0, build_short_story)
    printed = capsys.readouterr().out
    assert "all of ['replica-1', 'replica-2'] hold shards" in printed
    assert "NetworkPool vlan48: all 48 are served" in printed
