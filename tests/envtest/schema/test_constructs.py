"""Constructs that published CRDs are made of: gateways, certificates, clusters, address pools."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.schema import CompiledSchema, set_crd_defaults, validate_crd

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_AMOUNT = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"


def _build_crd(
    schema: dict[str, Any], group: str = "net.example.com", **version: Any
) -> dict[str, Any]:
    """Return a definition with this schema, as a client would send it."""
    entry = {"name": "v1", "served": True, "storage": True, **version}
    return {
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{**entry, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _compile(spec: dict[str, Any], **version: Any) -> CompiledSchema:
    """The compiled schema of a definition that was found to be in order."""
    schema = {"type": "object", "properties": {"spec": spec}}
    crd = _build_crd(schema, **version)
    set_crd_defaults(crd)
    crd["status"] = {"storedVersions": ["v1"]}
    assert validate_crd(crd) == []
    return CompiledSchema.compile(schema)


def _list_messages(schema: CompiledSchema, spec: Any, old: Any = None) -> list[str]:
    before = None if old is None else {"spec": old}
    return [error.message for error in schema.validate({"spec": spec}, before)]


def test_a_listener_list_with_rules_over_its_items() -> None:
    """Listeners by name, each combination of port, protocol and hostname once.

    TLS only for TLS.
    """
    listener = {
        "type": "object",
        "required": ["name", "port", "protocol"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 63},
            "hostname": {
                "type": "string",
                "maxLength": 253,
                "pattern": rf"^(\*\.)?{_LABEL}(\.{_LABEL})*$",
            },
            "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
            "protocol": {"type": "string", "maxLength": 255},
            "tls": {
                "type": "object",
                "properties": {"mode": {"type": "string", "default": "Terminate"}},
            },
        },
    }
    schema = _compile(
        {
            "type": "object",
            "properties": {
                "listeners": {
                    "type": "array",
                    "maxItems": 8,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": listener,
                    "x-kubernetes-validations": [
                        {
                            "rule": "self.all(l, l.protocol in ['HTTP', 'TCP'] ? !has(l.tls) : "
                            "true)",
                            "message": "tls must not be specified for HTTP and TCP",
                        },
                        {
                            "rule": "self.all(l1, self.exists_one(l2, l1.port == l2.port && "
                            "l1.protocol == l2.protocol && (has(l1.hostname) && has(l2.hostname) ?"
                            " l1.hostname == l2.hostname : !has(l1.hostname) && "
                            "!has(l2.hostname))))",
                            "message": "port, protocol and hostname must be unique together",
                        },
                    ],
                }
            },
        }
    )
    web = {"name": "web", "port": 80, "protocol": "HTTP"}
    other_spec = {**web, "name": "other", "hostname": "a.example.com"}
    assert _list_messages(schema, {"listeners": [web, other_spec]}) == []
    assert _list_messages(schema, {"listeners": [web, {**web, "name": "again"}]}) == [
        "spec.listeners: Invalid value: port, protocol and hostname must be unique together"
    ]
    secured = {"spec": {"listeners": [{**web, "tls": {}}]}}
    schema.set_defaults(secured)
    assert secured["spec"]["listeners"][0]["tls"] == {"mode": "Terminate"}
    assert [error.message for error in schema.validate(secured)] == [
        "spec.listeners: Invalid value: tls must not be specified for HTTP and TCP"
    ]


def test_an_object_that_is_exactly_one_of_several_kinds() -> None:
    """A matcher with a discriminator, checked by oneOf and by a rule."""
    schema = _compile(
        {
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": {"type": "string", "enum": ["Exact", "Prefix"]},
                "exact": {"type": "string", "maxLength": 64},
                "prefix": {"type": "string", "maxLength": 64},
            },
            "oneOf": [{"required": ["exact"]}, {"required": ["prefix"]}],
            "x-kubernetes-validations": [
                {
                    "rule": "self.type == 'Exact' ? has(self.exact) : has(self.prefix)",
                    "messageExpression": "'type ' + self.type + ' needs its own field'",
                }
            ],
        }
    )
    assert _list_messages(schema, {"type": "Exact", "exact": "/"}) == []
    assert _list_messages(schema, {"type": "Exact", "prefix": "/"}) == [
        "spec: Invalid value: type Exact needs its own field"
    ]
    both = _list_messages(schema, {"type": "Exact", "exact": "/", "prefix": "/"})
    assert len(both) == 1
    assert both[0].endswith("one and only one schema (oneOf). Found 2 valid alternatives")


def test_a_template_with_an_object_inside_and_free_parameters() -> None:
    """What cluster and solver templates look like: an embedded object, and JSON of any shape."""
    schema = _compile(
        {
            "type": "object",
            "properties": {
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "config": {"x-kubernetes-preserve-unknown-fields": True},
                "metadata": {
                    "type": "object",
                    "properties": {
                        "labels": {"type": "object", "additionalProperties": {"type": "string"}}
                    },
                },
            },
        }
    )
    template = {"apiVersion": "v1", "kind": "Secret", "metadata": {"bogus": 1}, "data": {"a": "b"}}
    obj: dict[str, Any] = {
        "spec": {
            "template": template,
            "config": [{"anything": None}, 1],
            "metadata": {"labels": {"a": "b"}, "name": "dropped"},
        }
    }
    assert schema.prune(obj) == ["spec.metadata.name", "spec.template.metadata.bogus"]
    assert obj["spec"]["template"]["data"] == {"a": "b"}
    assert obj["spec"]["config"] == [{"anything": None}, 1]
    assert schema.validate(obj) == []


def test_quantities_and_ports_as_number_or_text() -> None:
    schema = _compile(
        {
            "type": "object",
            "properties": {
                "limits": {
                    "type": "object",
                    "additionalProperties": {
                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                        "pattern": rf"^(\+|-)?{_AMOUNT}(([KMGTPE]i)|[numkMGTPE])?$",
                        "x-kubernetes-int-or-string": True,
                    },
                },
            },
        }
    )
    assert _list_messages(schema, {"limits": {"cpu": 2, "memory": "1.5Gi"}}) == []
    refused = _list_messages(schema, {"limits": {"cpu": "two"}})
    assert refused[0].startswith('spec.limits.cpu: Invalid value: "two": spec.limits.cpu in body')


def test_fields_that_may_be_set_once_and_never_changed() -> None:
    """Immutable once set, required to stay, with and without an old value."""
    schema = _compile(
        {
            "type": "object",
            "properties": {
                "providerID": {"type": "string", "maxLength": 64},
                "addresses": {
                    "type": "array",
                    "maxItems": 16,
                    "items": {"type": "string", "maxLength": 39},
                },
            },
            "x-kubernetes-validations": [
                {
                    "rule": "!has(oldSelf.providerID) || has(self.providerID)",
                    "message": "providerID may not be removed",
                },
                {
                    "rule": "!has(oldSelf.providerID) || !has(self.providerID) || "
                    "self.providerID == oldSelf.providerID",
                    "fieldPath": ".providerID",
                    "reason": "FieldValueForbidden",
                    "message": "providerID is immutable",
                },
                {
                    "rule": "!has(self.addresses) || self.addresses.all(a, isIP(a))",
                    "message": "addresses must be IP addresses",
                },
            ],
        }
    )
    assert _list_messages(schema, {"providerID": "a"}) == []
    assert _list_messages(schema, {"providerID": "a"}, {}) == []
    assert _list_messages(schema, {}, {"providerID": "a"}) == [
        "spec: Invalid value: providerID may not be removed"
    ]
    assert _list_messages(schema, {"providerID": "b"}, {"providerID": "a"}) == [
        "spec.providerID: Forbidden: providerID is immutable"
    ]
    assert _list_messages(schema, {"addresses": ["10.0.0.1", "x"]}) == [
        "spec: Invalid value: addresses must be IP addresses"
    ]


@pytest.mark.parametrize(
    ("annotation", "accepted"),
    [
        ("https://github.com/example/project/pull/1", True),
        ("unapproved, experimental", True),
        (None, False),
        ("yes", False),
    ],
)
def test_groups_of_the_community_need_an_approval(annotation: str | None, accepted: bool) -> None:
    crd = _build_crd({"type": "object"}, group="gateway.networking.k8s.io")
    set_crd_defaults(crd)
    crd["status"] = {"storedVersions": ["v1"]}
    if annotation is not None:
        crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": annotation}
    assert (validate_crd(crd) == []) is accepted
