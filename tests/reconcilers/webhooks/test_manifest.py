"""The ValidatingWebhookConfiguration in the manifests agrees with the code."""

import click

from manifests import get_folder
from reconcilers.api import crd, names
from reconcilers.cli.managerflags import manager_options
from reconcilers.webhooks.admission import build_path
from reconcilers.webhooks.configuration import NAME, SERVICE, VALIDATED, build_configuration
from tests.yamls import read_yaml


def test_the_manifest_equals_the_configuration_that_the_code_builds() -> None:
    shipped = read_yaml(get_folder("webhook").joinpath("validating.yaml").read_text())
    assert shipped == build_configuration()


def test_the_manifest_of_the_service_has_the_name_in_the_configuration() -> None:
    service = read_yaml(get_folder("webhook").joinpath("service.yaml").read_text())
    meta = service["metadata"]
    assert (meta["namespace"], meta["name"]) == (names.DEFAULT_NAMESPACE, SERVICE)


def test_the_defaults_of_flags_name_the_objects_of_the_manifests() -> None:
    @click.command()
    @manager_options
    def command(**_: object) -> None:
        """Take the options."""

    defaults = {param.name: param.default for param in command.params}
    assert defaults["service"] == SERVICE
    assert defaults["validating"] == [NAME]


def test_every_kind_has_the_webhook_path_that_butler_uses() -> None:
    assert {kind.kind for kind, _ in VALIDATED.values()} == {kind.kind for kind in crd.KINDS}
    for name, (kind, _) in VALIDATED.items():
        assert name == f"v{kind.kind.lower()}.kb.io"
        assert build_path(kind) == f"/validate-butler-butlerlabs-dev-v1alpha1-{kind.kind.lower()}"


def test_webhooks_are_not_called_for_statuses() -> None:
    rules = [rule for webhook in build_configuration()["webhooks"] for rule in webhook["rules"]]
    assert not [name for rule in rules for name in rule["resources"] if "/" in name or "*" in name]


def test_no_ca_bundle_is_shipped_that_would_overwrite_the_injected_one() -> None:
    assert all(
        "caBundle" not in webhook["clientConfig"] for webhook in build_configuration()["webhooks"]
    )


def test_only_the_webhook_that_warns_about_deletions_has_the_failure_policy_ignore() -> None:
    policies = {
        webhook["name"]: webhook["failurePolicy"] for webhook in build_configuration()["webhooks"]
    }
    lenient = {name for name, policy in policies.items() if policy == "Ignore"}
    assert lenient == {"deletion.vipallocation.kb.io"}
    [advice] = [
        webhook for webhook in build_configuration()["webhooks"] if webhook["name"] in lenient
    ]
    assert [rule["operations"] for rule in advice["rules"]] == [["DELETE"]]
    strict = [
        webhook for webhook in build_configuration()["webhooks"] if webhook["name"] not in lenient
    ]
    deleting = {
        kind
        for webhook in strict
        for rule in webhook["rules"]
        if "DELETE" in rule["operations"]
        for kind in rule["resources"]
    }
    assert "ipallocations" not in deleting
