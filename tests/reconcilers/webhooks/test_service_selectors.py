"""What is refused of the selector of Services, and what is worth a warning."""

from typing import Any

import pytest

from controller.meta import Key
from reconcilers.specrules.tenantspecs import review_tenant
from reconcilers.webhooks.tenantcluster import list_balancer_warnings
from tests.reconcilers import make

WHERE = "spec.addons.loadBalancer.cilium.serviceSelector"
Json = dict[str, Any]


def tenant(selector: Json, provider: str = "cilium") -> Any:
    addon = {"version": "1", "provider": provider, "cilium": {"serviceSelector": selector}}
    return make.tenant(spec={"addons": {"loadBalancer": addon}})


def term(key: str = "app", operator: str = "In", *values: str) -> Json:
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
            {"matchExpressions": [term("app", "In", "a"), term("a b", "Exists")]},
            ".matchExpressions[1].key",
            "'a b' is no label key",
        ),
        (
            {"matchExpressions": [term("app", "Is", "a")]},
            ".matchExpressions[0].operator",
            "'Is' is not one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            {"matchExpressions": [term("app", "NotIn")]},
            ".matchExpressions[0].values",
            "NotIn: In and NotIn need values",
        ),
        (
            {"matchExpressions": [term("app", "Exists", "a")]},
            ".matchExpressions[0].values",
            "Exists and DoesNotExist have none",
        ),
        (
            {"matchExpressions": [term("app", "In", "a", "b/c")]},
            ".matchExpressions[0].values[1]",
            "'b/c' is no label value",
        ),
    ],
)
def test_a_selector_that_cilium_would_not_take_is_refused_at_the_field(
    selector: Json, field: str, message: str
) -> None:
    [cause] = review_tenant(tenant(selector)).causes
    assert cause.field == f"{WHERE}{field}"
    assert message in cause.message


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"app": "", "io.kubernetes.service.namespace": "shop"}},
        {"matchExpressions": [term("example.com/a.b_c", "NotIn", "x", ""), term("b", "Exists")]},
        {"matchLabels": {"app": "a"}, "matchExpressions": [term("app", "In", "a", "b")]},
    ],
)
def test_a_selector_that_cilium_takes_passes_without_a_word(selector: Json) -> None:
    verdict = review_tenant(tenant(selector))
    assert (verdict.causes, verdict.warnings) == ((), ())


@pytest.mark.parametrize(
    ("selector", "provider", "warning"),
    [
        ({"matchLabels": {"a": "b"}}, "metallb", f"{WHERE}: ignored, as spec.addons.loadBalancer"),
        ({}, "cilium", f"{WHERE}: selects all Services"),
        (
            {"matchLabels": {"a": "b"}, "matchExpressions": [term("a", "NotIn", "b")]},
            "cilium",
            f"{WHERE}: selects no Service, as its terms about a contradict",
        ),
        (
            {"matchExpressions": [term("a", "In", "b"), term("a", "In", "c")]},
            "cilium",
            f"{WHERE}: selects no Service",
        ),
        (
            {"matchExpressions": [term("a", "Exists"), term("a", "DoesNotExist")]},
            "cilium",
            f"{WHERE}: selects no Service",
        ),
    ],
)
def test_a_selector_without_effect_is_a_warning(
    selector: Json, provider: str, warning: str
) -> None:
    verdict = review_tenant(tenant(selector, provider))
    assert verdict.causes == ()
    assert verdict.warnings[0].startswith(warning)


def test_a_change_of_the_selector_warns_that_services_may_lose_addresses() -> None:
    before, after = tenant({"matchLabels": {"a": "b"}}), tenant({"matchLabels": {"a": "c"}})
    [warning] = list_balancer_warnings(before, after, [Key("butler-system", "team-a-lb")])
    assert warning == f"{WHERE}: Services in the cluster that it leaves out lose their addresses"
    assert list(list_balancer_warnings(before, after, [])) == [], "there are no addresses"
    assert list(list_balancer_warnings(before, before, [Key("n", "x")])) == []
    assert list(list_balancer_warnings(before, tenant({}), [Key("n", "x")])) == []
