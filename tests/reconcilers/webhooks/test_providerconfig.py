"""The rules on ProviderConfigs that clusters refer to."""

from controller.meta import Key
from reconcilers.specrules.verdict import Verdict
from reconcilers.webhooks import providerconfig
from tests.reconcilers import make


def test_a_provider_that_clusters_refer_to_cannot_be_deleted() -> None:
    verdict = providerconfig.review_deletion(make.provider("lab", name="p"), [Key("team", "a")])
    assert verdict.join_causes() == (
        'cannot delete ProviderConfig "p": TenantCluster team/a still references it'
    )
    assert providerconfig.review_deletion(make.provider("lab"), []) == Verdict()
