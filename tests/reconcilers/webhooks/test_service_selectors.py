"""The rules on the Service selector of a TenantCluster: rejections and warnings."""

from typing import Any

import pytest

from controller.meta import Key
from reconcilers.specrules.tenantspecs import review_tenant
from reconcilers.webhooks.tenantcluster import list_balancer_warnings
from tests.reconcilers import make

FIELD = "spec.addons.loadBalancer.cilium.serviceSelector"
Json = dict[str, Any]


def make_tenant(selector: Json, provider: str = "cilium") -> Any:
    """Return a TenantCluster with this selector."""
    addon = {"version": "1", "provider": provider, "cilium": {"serviceSelector": selector}}
    return make.tenant(spec={"addons": {"loadBalancer": addon}})


def make_term(key: str = "app", operator: str = "In", *values: str) -> Json:
    """Return an entry of matchExpressions."""
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("selector", "field", "message"),
    [
        ({"matchLabels": {"-x": "a"}}, ".matchLabels", "'-x' is no label key"),
        ({"matchLabels": {"/x": "a"}}, ".matchLabels", "'/x' is no label key"),
        ({"matchLabels": {f"{'d.' * 130}x/app": "a"}}, ".matchLabels", "is no label key"),
        ({"matchLabels": {"app": "a b"}}, ".matchLabels.app", "'a b' is no label value"),
        ({"matchLabels": {"app": "x" * 64}}, ".matchLabels.app", "at most 63"),
        (
            {"matchExpressions": [make_term("app", "In", "a"), make_term("a b", "Exists")]},
            ".matchExpressions[1].key",
            "'a b' is no label key",
        ),
        (
            {"matchExpressions": [make_term("app", "Is", "a")]},
            ".matchExpressions[0].operator",
            "'Is' is not one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            {"matchExpressions": [make_term("app", "NotIn")]},
            ".matchExpressions[0].values",
            "NotIn: In and NotIn need values",
        ),
        (
            {"matchExpressions": [make_term("app", "Exists", "a")]},
            ".matchExpressions[0].values",
            "Exists and DoesNotExist have none",
        ),
        (
            {"matchExpressions": [make_term("app", "In", "a", "b/c")]},
            ".matchExpressions[0].values[1]",
            "'b/c' is no label value",
        ),
    ],
)
def test_a_selector_that_cilium_rejects_is_rejected_at_its_field(
    selector: Json, field: str, message: str
) -> None:
    [cause] = review_tenant(make_tenant(selector)).causes
    assert cause.field == f"{FIELD}{field}"
    assert message in cause.message


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"app": "", "io.kubernetes.service.namespace": "shop"}},
        {
            "matchExpressions": [
                make_term("example.com/a.b_c", "NotIn", "x", ""),
                make_term("b", "Exists"),
            ]
        },
        {"matchLabels": {"app": "a"}, "matchExpressions": [make_term("app", "In", "a", "b")]},
    ],
)
def test_a_selector_that_cilium_accepts_has_no_warning(selector: Json) -> None:
    verdict = review_tenant(make_tenant(selector))
    assert (verdict.causes, verdict.warnings) == ((), ())


@pytest.mark.parametrize(
    ("selector", "provider", "warning"),
    [
        ({"matchLabels": {"a": "b"}}, "metallb", f"{FIELD}: ignored, as spec.addons.loadBalancer"),
        ({}, "cilium", f"{FIELD}: selects all Services"),
        (
            {"matchLabels": {"a": "b"}, "matchExpressions": [make_term("a", "NotIn", "b")]},
            "cilium",
            f"{FIELD}: selects no Service, as its terms about a contradict",
        ),
        (
            {"matchExpressions": [make_term("a", "In", "b"), make_term("a", "In", "c")]},
            "cilium",
            f"{FIELD}: selects no Service",
        ),
        (
            {"matchExpressions": [make_term("a", "Exists"), make_term("a", "DoesNotExist")]},
            "cilium",
            f"{FIELD}: selects no Service",
        ),
    ],
)
def test_a_selector_that_is_ignored_or_selects_all_or_nothing_is_a_warning(
    selector: Json, provider: str, warning: str
) -> None:
    verdict = review_tenant(make_tenant(selector, provider))
    assert verdict.causes == ()
    assert verdict.warnings[0].startswith(warning)


def test_a_change_of_the_selector_warns_that_services_may_lose_addresses() -> None:
    before, after = (
        make_tenant({"matchLabels": {"a": "b"}}),
        make_tenant({"matchLabels": {"a": "c"}}),
    )
    [warning] = list_balancer_warnings(before, after, [Key("butler-system", "team-a-lb")])
    assert warning == f"{FIELD}: Services in the cluster that it leaves out lose their addresses"
    assert list(list_balancer_warnings(before, after, [])) == [], "there are no addresses"
    assert list(list_balancer_warnings(before, before, [Key("n", "x")])) == []
    assert list(list_balancer_warnings(before, make_tenant({}), [Key("n", "x")])) == []
