"""Manifests made of types and of a manager: schemas, definitions, roles, a Deployment."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, make_dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from controller import (
    SETTLED,
    Condition,
    ConfigurationError,
    Key,
    Manager,
    ManagerOptions,
    MetadataOnly,
    NamespaceSet,
    ObjectMeta,
    Outcome,
    Resource,
    SelfSigned,
    Watch,
    to_self,
)
from controller.markers import ApiType, FieldSchema, Rule, SchemaOf, list_map, with_rules
from controller.scaffold import (
    AGE,
    READY,
    CustomKind,
    DeploymentSettings,
    ScalePaths,
    Writes,
    create_crd,
    create_deployment,
    create_roles,
    create_structural_schema,
    create_webhook_configurations,
)
from controller.scaffold.__main__ import main
from controller.scaffold.roles import list_unwatched_kinds
from controller.testing import FakeApi
from controller.webhooks import AdmissionRequest, Allowed, Answer, Webhook
from envtest.schema.crd.definition import set_crd_defaults, validate_crd
from tests.clock import VirtualClock
from tests.controller.widgets import WIDGETS
from tests.yamls import read_all_yaml

Json = dict[str, Any]


@with_rules(Rule("self.least <= self.most", "least is above most"))
@dataclass(frozen=True, slots=True)
class Limits:
    """How many copies there may be."""

    least: Annotated[int, FieldSchema(ge=0, le=9)] = 1
    """The smallest number."""
    most: int = 3


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    size: float = 0.5


@dataclass(frozen=True, slots=True)
class GadgetSpec:
    limits: Limits
    mode: Literal["fast", "safe"] = "safe"
    due: datetime | None = None
    parts: Annotated[tuple[Part, ...], FieldSchema(json_schema_extra=list_map("name"))] = ()
    tags: frozenset[str] = frozenset()
    labels: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    anything: Any = None
    memory: int | str = "64Mi"


@dataclass(frozen=True, slots=True)
class GadgetStatus:
    replicas: int = 0
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Gadget:
    """A gadget."""

    metadata: ObjectMeta
    spec: GadgetSpec
    status: GadgetStatus = GadgetStatus()


GADGETS = Resource("example.com", "v1", "Gadget", "gadgets", Gadget)
KIND = CustomKind(
    GADGETS,
    columns=(READY, AGE),
    short_names=("gd",),
    categories=("all",),
    selectable=(".spec.mode",),
    scale=ScalePaths(".spec.limits.most"),
)


def find_problems(definition: Json) -> list[Any]:
    """Return the errors that a server finds in a definition."""
    set_crd_defaults(definition)
    stored = [version["name"] for version in definition["spec"]["versions"] if version["storage"]]
    definition["status"] = {"storedVersions": stored}
    return list(validate_crd(definition))


def get_spec(definition: Json) -> Json:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec: Json = schema["properties"]["spec"]
    return spec


def test_a_definition_has_the_schema_and_columns_of_its_type() -> None:
    definition = create_crd(KIND)
    spec = get_spec(definition)
    assert spec["required"] == ["limits"]
    limits = spec["properties"]["limits"]
    assert limits["properties"]["least"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 9,
        "default": 1,
        "description": "The smallest number.",
    }
    assert limits["x-kubernetes-validations"] == [
        {"rule": "self.least <= self.most", "message": "least is above most"}
    ]
    fields = spec["properties"]
    assert fields["mode"] == {"type": "string", "enum": ["fast", "safe"], "default": "safe"}
    assert fields["due"] == {"type": "string", "format": "date-time"}
    assert fields["parts"]["x-kubernetes-list-map-keys"] == ["name"]
    assert fields["parts"]["items"]["properties"]["size"] == {"type": "number", "default": 0.5}
    assert fields["tags"]["x-kubernetes-list-type"] == "set"
    assert "uniqueItems" not in fields["tags"]
    assert fields["labels"]["additionalProperties"] == {"type": "string"}
    preserve = "x-kubernetes-preserve-unknown-fields"
    assert fields["extra"] == {"type": "object", preserve: True}
    assert fields["anything"] == {preserve: True}
    assert fields["memory"] == {"x-kubernetes-int-or-string": True, "default": "64Mi"}

    version = definition["spec"]["versions"][0]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.limits.most",
            "statusReplicasPath": ".status.replicas",
        },
    }
    assert [column["name"] for column in version["additionalPrinterColumns"]] == ["Ready", "Age"]
    assert version["selectableFields"] == [{"jsonPath": ".spec.mode"}]
    assert definition["spec"]["names"]["shortNames"] == ["gd"]


def test_the_api_server_would_accept_the_definition() -> None:
    assert find_problems(create_crd(KIND)) == []


def test_the_defaults_of_a_status_are_not_written_by_the_server() -> None:
    status = create_structural_schema(Gadget)["properties"]["status"]
    assert status["properties"]["replicas"] == {"type": "integer"}


class StructSpec(msgspec.Struct, frozen=True):
    size: Annotated[int, msgspec.Meta(ge=1)] = 1
    next: str | None = None


class StructKind(msgspec.Struct, frozen=True):
    """A kind whose type is a msgspec.Struct."""

    metadata: ObjectMeta
    spec: StructSpec = StructSpec()


class ModelSpec(pydantic.BaseModel, frozen=True):
    size: pydantic.PositiveInt = 1


class ModelKind(pydantic.BaseModel, frozen=True):
    """A kind whose type is a pydantic model."""

    metadata: ObjectMeta
    spec: ModelSpec = ModelSpec()


@pytest.mark.parametrize("model", [StructKind, ModelKind])
def test_structs_and_pydantic_models_have_a_schema_too(model: type[Any]) -> None:
    definition = create_crd(CustomKind(Resource("example.com", "v1", "Thing", "things", model)))
    size = get_spec(definition)["properties"]["size"]
    assert (size["type"], size["default"]) == ("integer", 1)
    assert size["minimum"] == (1 if model is StructKind else 0)
    assert size.get("exclusiveMinimum") is (None if model is StructKind else True)
    assert "subresources" not in definition["spec"]["versions"][0]
    assert find_problems(definition) == []


@dataclass(frozen=True, slots=True)
class Chained:
    inner: "Chained | None" = None


@dataclass(frozen=True, slots=True)
class ChainedKind:
    metadata: ObjectMeta
    spec: Chained


@dataclass(frozen=True, slots=True)
class PairKind:
    metadata: ObjectMeta
    spec: tuple[int, str]


@dataclass(frozen=True, slots=True)
class UnionKind:
    metadata: ObjectMeta
    spec: Part | Limits


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ChainedKind, r"ChainedKind\.spec\.inner: Chained contains itself"),
        (PairKind, r"PairKind\.spec: a tuple of a fixed length"),
        (UnionKind, r"UnionKind\.spec: a union of types"),
    ],
)
def test_a_field_that_no_structural_schema_can_describe_is_named(
    model: type[Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        create_structural_schema(model)


@dataclass(frozen=True, slots=True)
class LimitedSpec:
    port: Annotated[int | str, FieldSchema(pattern="^[a-z]+$", max_length=15)] = 80
    ports: dict[str, Annotated[int | str, FieldSchema(pattern="^[a-z]+$")]] = field(
        default_factory=dict
    )
    share: Annotated[int, FieldSchema(ge=1)] | Annotated[str, FieldSchema(pattern="%$")] = 1
    other: Annotated[int | str | None, FieldSchema(pattern="^[a-z]+$")] = None


@dataclass(frozen=True, slots=True)
class LimitedKind:
    metadata: ObjectMeta
    spec: LimitedSpec = LimitedSpec()


@dataclass(frozen=True, slots=True)
class OtherSpec:
    port: Annotated[int, FieldSchema(ge=1)]


@dataclass(frozen=True, slots=True)
class OtherKind:
    metadata: ObjectMeta
    spec: OtherSpec


@dataclass(frozen=True, slots=True)
class ForeignSpec:
    other: Annotated[Mapping[str, Any], SchemaOf(__name__, "OtherSpec")]


@dataclass(frozen=True, slots=True)
class ForeignKind:
    metadata: ObjectMeta
    spec: ForeignSpec


def test_a_field_with_the_schema_of_another_type_is_decoded_unchanged() -> None:
    resource = Resource("example.com", "v1", "ForeignKind", "foreignkinds", ForeignKind)
    fields = get_spec(create_crd(CustomKind(resource)))["properties"]
    assert fields["other"] == create_structural_schema(OtherKind)["properties"]["spec"]
    other = {"port": "80 in a later version"}
    body: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"other": other}}
    assert msgspec.convert(body, ForeignKind).spec.other == other
    valid = body | {"spec": {"other": {"port": 80}}}
    assert pydantic.TypeAdapter(ForeignKind).validate_python(valid).spec.other == {"port": 80}
    with pytest.raises(pydantic.ValidationError, match="port"):
        pydantic.TypeAdapter(ForeignKind).validate_python(body)


@with_rules(Rule("self.least <= self.most", "least is above most"))
class MarkedLimits(ApiType, frozen=True):
    """How many copies there may be."""

    least: Annotated[int, FieldSchema(ge=0, le=9)] = 1
    """The fewest."""
    most: int = 3


class MarkedSpec(ApiType, frozen=True):
    limits: MarkedLimits = MarkedLimits()
    names: tuple[str, ...] = ()
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)


class MarkedKind(ApiType, frozen=True):
    """A Struct that is described as a dataclass is."""

    metadata: ObjectMeta
    spec: MarkedSpec


def test_a_struct_with_markers_has_their_schema_which_the_decoder_does_not_enforce() -> None:
    spec = create_structural_schema(MarkedKind)["properties"]["spec"]["properties"]
    assert spec["limits"] == {
        "description": "How many copies there may be.",
        "type": "object",
        "properties": {
            "least": {
                "description": "The fewest.",
                "type": "integer",
                "minimum": 0,
                "maximum": 9,
                "default": 1,
            },
            "most": {"type": "integer", "default": 3},
        },
        "x-kubernetes-validations": [
            {"rule": "self.least <= self.most", "message": "least is above most"}
        ],
    }
    body: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"limits": {"least": 99}}}
    decoded = msgspec.convert(body, MarkedKind)
    assert decoded.spec == MarkedSpec(MarkedLimits(99))
    with pytest.raises(pydantic.ValidationError, match="least"):
        pydantic.TypeAdapter(MarkedKind).validate_python(body)
    valid = body | {"spec": {}}
    assert pydantic.TypeAdapter(MarkedKind).validate_python(valid).spec == MarkedSpec()


def test_a_missing_pydantic_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = make_dataclass("Lonely", [("metadata", ObjectMeta)])
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(ConfigurationError, match=r"schema of Lonely needs pydantic: install .*\["):
        create_structural_schema(model)


def test_the_limits_of_a_number_or_a_text_are_in_the_schema() -> None:
    definition = create_crd(
        CustomKind(Resource("example.com", "v1", "Part", "parts", LimitedKind))
    )
    fields = get_spec(definition)["properties"]
    int_or_string = {"x-kubernetes-int-or-string": True}
    pattern = {"pattern": "^[a-z]+$"}
    assert fields["port"] == {**int_or_string, **pattern, "maxLength": 15, "default": 80}
    assert fields["ports"]["additionalProperties"] == {**int_or_string, **pattern}
    assert fields["share"] == {**int_or_string, "pattern": "%$", "minimum": 1, "default": 1}
    assert fields["other"] == {**int_or_string, **pattern}
    assert find_problems(definition) == []


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Annotated[int | str, FieldSchema(ge=1)], "ge does not apply to int"),
        (Annotated[str, FieldSchema(le=1)], "le does not apply to string"),
        (Annotated[str | None, FieldSchema(ge=1)], "ge does not apply to string"),
        (Annotated[int, FieldSchema(pattern="a")], "pattern does not apply to integer"),
        (Annotated[datetime, FieldSchema(pattern="a")], "pattern does not apply to date-time"),
        (Annotated[int | str, pydantic.Field(gt=1)], "gt does not apply to int"),
    ],
)
def test_a_limit_that_does_not_apply_to_the_type_names_the_field(kind: Any, message: str) -> None:
    spec = make_dataclass("Spec", [("size", kind)])
    model = make_dataclass("Thing", [("metadata", ObjectMeta), ("spec", spec)])
    with pytest.raises(TypeError, match=rf"Thing\.spec\.size: {message}"):
        create_structural_schema(model)


def test_conditions_are_a_map_by_type_and_have_a_description() -> None:
    conditions = create_structural_schema(Gadget)["properties"]["status"]["properties"][
        "conditions"
    ]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    description = "One observation about the object, for programs and for people."
    assert conditions["items"]["description"] == description
    assert "description" not in create_structural_schema(LimitedKind)


def test_versions_of_a_kind_are_in_one_definition_and_others_are_refused() -> None:
    older = CustomKind(Resource("example.com", "v1alpha1", "Gadget", "gadgets", Gadget))
    versions = create_crd(KIND, older)["spec"]["versions"]
    assert [(version["name"], version["storage"]) for version in versions] == [
        ("v1", True),
        ("v1alpha1", False),
    ]
    with pytest.raises(ValueError, match="Widget is not a version of Gadget"):
        create_crd(KIND, CustomKind(WIDGETS))
    with pytest.raises(ValueError, match="Gadget has a version twice: v1, v1"):
        create_crd(KIND, KIND)


async def reconcile(_: Key) -> Outcome:
    return SETTLED


async def handle(_: AdmissionRequest[Any]) -> Answer:
    return Allowed()


def create_manager(options: ManagerOptions, *namespaces: str) -> Manager:
    manager = Manager(FakeApi(VirtualClock()), clock=VirtualClock(), options=options)
    watches: list[Watch[Any]] = [
        Watch(manager.get_informer(GADGETS, namespace=namespace), to_self)
        for namespace in namespaces
    ]
    watches.append(Watch(manager.get_informer(WIDGETS), to_self))
    manager.add_controller("gadgets", reconcile, watches=watches)
    return manager


def list_allowed(objects: list[Json]) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield namespace, resource, verbs and names of each rule."""
    for role in objects:
        for rule in role.get("rules", ()):
            (resource,) = rule["resources"]
            namespace = role["metadata"].get("namespace", "")
            verbs = " ".join(rule["verbs"])
            yield namespace, resource, verbs, tuple(rule.get("resourceNames", ()))


def test_roles_allow_to_read_watched_kinds_and_to_make_declared_writes() -> None:
    manager = create_manager(ManagerOptions(), "")
    manager.add_recorder("example.com/gadgets")
    objects = create_roles(
        manager,
        "op",
        namespace="home",
        writes=[
            Writes(GADGETS, ("patch",), status=True, owner=True),
            Writes.for_children(WIDGETS),
        ],
    )
    assert set(list_allowed(objects)) == {
        ("", "gadgets", "get list watch patch", ()),
        ("", "gadgets/status", "patch", ()),
        ("", "gadgets/finalizers", "update", ()),
        ("", "widgets", "get list watch create patch delete", ()),
        ("", "events", "create patch", ()),
    }
    assert [manifest["kind"] for manifest in objects] == [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
    ]
    assert objects[2]["subjects"] == [
        {"kind": "ServiceAccount", "name": "op", "namespace": "home"}
    ]


def test_a_kind_that_is_watched_in_namespaces_is_allowed_in_these_only() -> None:
    objects = create_roles(
        create_manager(ManagerOptions(), "a", "b"),
        "op",
        namespace="home",
        writes=[Writes(GADGETS, ("patch",))],
    )
    assert {rule for rule in list_allowed(objects) if rule[1] == "gadgets"} == {
        ("a", "gadgets", "get list watch patch", ()),
        ("b", "gadgets", "get list watch patch", ()),
    }


def test_a_set_of_namespaces_is_allowed_name_by_name_with_what_is_written_there() -> None:
    manager = Manager(FakeApi(VirtualClock()), options=ManagerOptions())
    namespaces = NamespaceSet(["a"])
    manager.get_informer(GADGETS, namespaces=namespaces)
    manager.add_recorder("example.com/gadgets")
    writes = [Writes(GADGETS, ("patch",)), Writes.for_children(WIDGETS)]
    objects = create_roles(manager, "op", namespace="home", writes=writes, watched=["b"])
    assert set(list_allowed(objects)) == {
        (namespace, *rule)
        for namespace in ("a", "b")
        for rule in (
            ("gadgets", "get list watch patch", ()),
            ("widgets", "get create patch delete", ()),
            ("events", "create patch", ()),
        )
    }
    assert {manifest["kind"] for manifest in objects} == {"ServiceAccount", "Role", "RoleBinding"}
    namespaces.remove("a")
    assert [
        manifest["kind"]
        for manifest in create_roles(manager, "op", namespace="home", writes=writes)
    ] == ["ServiceAccount"]
    assert list_unwatched_kinds(manager) == ["gadgets.example.com"]
    assert list_unwatched_kinds(manager, ["b"]) == []


def test_a_written_kind_that_is_cluster_scoped_is_allowed_in_the_whole_cluster() -> None:
    manager = Manager(FakeApi(VirtualClock()), options=ManagerOptions())
    manager.get_informer(GADGETS, namespaces=NamespaceSet(["a"]))
    nodes = Resource("", "v1", "Node", "nodes", MetadataOnly, namespaced=False)
    objects = create_roles(manager, "op", namespace="home", writes=[Writes(nodes, ("patch",))])
    assert ("", "nodes", "patch", ()) in set(list_allowed(objects))


def test_roles_allow_leases_token_reviews_and_certificates_if_the_options_need_them() -> None:
    self_signed = SelfSigned(
        "home", "svc", "certs", validating=("v",), converting=("c.example.com",)
    )
    options = ManagerOptions(
        leader_elect=True, metrics_secure=True, webhook_self_signed=self_signed
    )
    rules = set(list_allowed(create_roles(create_manager(options, ""), "op", "home")))
    assert ("home", "leases", "get create update", ()) in rules
    assert ("home", "secrets", "create", ()) in rules
    assert ("home", "secrets", "list watch patch", ("certs",)) in rules
    assert ("", "validatingwebhookconfigurations", "list watch patch", ("v",)) in rules
    assert ("", "customresourcedefinitions", "list watch patch", ("c.example.com",)) in rules
    assert ("", "tokenreviews", "create", ()) in rules
    assert not [rule for rule in rules if rule[1] == "mutatingwebhookconfigurations"]


def test_a_deployment_has_the_ports_and_probes_of_its_manager() -> None:
    options = ManagerOptions(
        health_bind=":8081", metrics_bind=":8080", leader_elect=True, grace_seconds=20
    )
    deployment = create_deployment(
        DeploymentSettings("op", "home", "registry/op:1", replicas=2), options
    )
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {
        "probes": 8081,
        "metrics": 8080,
    }
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "probes"}
    assert pod["terminationGracePeriodSeconds"] == 30
    assert pod["serviceAccountName"] == "op"


@pytest.mark.parametrize(
    ("options", "replicas", "message"),
    [
        (ManagerOptions(), 1, "set health_bind in ManagerOptions"),
        (ManagerOptions(health_bind="127.0.0.1:8081"), 1, "cannot be reached from outside"),
        (ManagerOptions(health_bind=":0"), 1, "write a port alone"),
        (ManagerOptions(health_bind=":8081"), 2, "2 replicas need leader_elect"),
    ],
)
def test_options_that_do_not_work_in_a_deployment_are_refused(
    options: ManagerOptions, replicas: int, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        create_deployment(DeploymentSettings("op", "home", "image", replicas=replicas), options)


OPERATOR = """
from controller import ManagerOptions, Watch, SETTLED, to_self
from controller.scaffold import Writes
from tests.controller.test_scaffold import GADGETS, KIND

OPTIONS = ManagerOptions(health_bind=":8081")
KINDS = [KIND]
WRITES = [Writes(GADGETS, ("patch",))]

async def reconcile(key):
    return SETTLED

def build(manager):
    watches = [Watch(manager.get_informer(GADGETS), to_self)]
    manager.add_controller("gadgets", reconcile, watches=watches)
"""


def test_the_command_prints_all_manifests_of_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gadget_operator.py").write_text(OPERATOR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    main(["gadget_operator", "--image", "registry/op:1", "--namespace", "home"])
    printed = [
        document
        for document in read_all_yaml(capsys.readouterr().out)
        if isinstance(document, dict)
    ]
    assert [manifest["kind"] for manifest in printed] == [
        "Namespace",
        "CustomResourceDefinition",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
    ]
    assert printed[-1]["metadata"]["name"] == "gadget-operator"
    main(["gadget_operator", "--only", "roles"])
    assert "Deployment" not in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["gadget_operator"])
    assert ended.value.code == 1
    output, errors = capsys.readouterr()
    assert "the Deployment needs an image; name it with --image" in errors
    assert output == ""  # nothing for kubectl to apply
    with pytest.raises(SystemExit):
        main(["no_such_operator"])
    assert "there is no module no_such_operator in" in capsys.readouterr().err


WEBHOOKS = """
import os
from controller import ManagerOptions, SelfSigned, Watch, to_self
from controller.webhooks import Webhook
from tests.controller.test_scaffold import GADGETS, KIND, Gadget, reconcile

HOME = os.environ.get("POD_NAMESPACE", "gadgets-system")
OPTIONS = ManagerOptions(
    health_bind=":8081",
    webhook_bind=":9443",
    leader_elect=True,
    lease_name="gadgets",
    lease_namespace=HOME,
    webhook_self_signed=SelfSigned(HOME, "gadgets-webhooks", "certs", validating=("rules",)),
)
KINDS = [KIND]

async def handle(request):
    raise NotImplementedError

def build(manager):
    watches = [Watch(manager.get_informer(GADGETS), to_self)]
    manager.add_controller("gadgets", reconcile, watches=watches)
    manager.add_webhook(Webhook("/validate-gadget", handle, Gadget))
    manager.add_webhook(Webhook("/validate-other", handle, dict))
"""


@pytest.mark.parametrize(
    ("flags", "home"), [([], "gadgets-system"), (["--namespace", "team"], "team")]
)
def test_the_command_prints_webhooks_and_one_namespace_for_all_parts(
    flags: list[str],
    home: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"webhooks_of_{home.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(WEBHOOKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    main([name, "--image", "registry/op:1", "--name", "gadgets", *flags])
    output = capsys.readouterr()
    printed = [document for document in read_all_yaml(output.out) if isinstance(document, dict)]
    namespaces = {manifest["metadata"].get("namespace", home) for manifest in printed}
    assert (printed[0]["metadata"]["name"], namespaces) == (home, {home})
    service, configuration = printed[-2:]
    assert service["metadata"] == {"name": "gadgets-webhooks", "namespace": home}
    assert service["spec"]["selector"] == {"app.kubernetes.io/name": "gadgets"}
    assert (configuration["kind"], configuration["metadata"]["name"]) == (
        "ValidatingWebhookConfiguration",
        "rules",
    )
    (webhook,) = configuration["webhooks"]
    assert webhook["clientConfig"]["service"] == {
        "name": "gadgets-webhooks",
        "namespace": home,
        "path": "/validate-gadget",
    }
    assert webhook["rules"][0]["resources"] == ["gadgets"]
    assert "webhook /validate-other is in no configuration" in output.err


def test_a_namespace_flag_that_differs_from_the_options_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = WEBHOOKS.replace('os.environ.get("POD_NAMESPACE", "gadgets-system")', '"fixed"')
    (tmp_path / "fixed_namespace.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit):
        main(["fixed_namespace", "--namespace", "team", "--only", "roles"])
    assert (
        "--namespace is team, ManagerOptions.lease_namespace is fixed" in capsys.readouterr().err
    )


def test_a_configuration_whose_ca_bundle_nobody_writes_is_refused() -> None:
    self_signed = SelfSigned("home", "svc", "certs")
    manager = create_manager(
        ManagerOptions(webhook_bind=":9443", webhook_self_signed=self_signed), ""
    )
    manager.add_webhook(Webhook("/set-defaults", handle, Gadget, mutating=True))
    with pytest.raises(ConfigurationError, match=r"SelfSigned\.mutating is empty"):
        create_webhook_configurations(manager, "op", "home")


def test_the_printed_rules_have_the_operations_of_each_webhook() -> None:
    manager = create_manager(ManagerOptions(webhook_bind=":9443"), "")
    manager.add_webhook(Webhook("/a", handle, Gadget, operations=("DELETE", "UPDATE", "DELETE")))
    manager.add_webhook(Webhook("/b", handle, Gadget))
    _, configuration = create_webhook_configurations(manager, "op", namespace="home", kinds=[KIND])
    operations = [webhook["rules"][0]["operations"] for webhook in configuration["webhooks"]]
    assert operations == [["DELETE", "UPDATE"], ["CREATE", "UPDATE"]]


@pytest.mark.parametrize("operations", ["DELETE", ["CONNECT"], ["delete"], []])
def test_operations_that_no_webhook_can_have_are_named(operations: Any) -> None:
    with pytest.raises(ValueError, match="operations must be a list of CREATE, UPDATE, DELETE"):
        Webhook("/a", handle, Gadget, operations=operations)


def test_the_command_names_kinds_whose_set_of_namespaces_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = OPERATOR.replace("informer(GADGETS)", "informer(GADGETS, namespaces=NamespaceSet())")
    source = source.replace("ManagerOptions, Watch", "ManagerOptions, NamespaceSet, Watch")
    (tmp_path / "spaces_operator.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    main(["spaces_operator", "--only", "roles"])
    assert "gadgets.example.com is in no role, because its NamespaceSet" in capsys.readouterr().err
    main(["spaces_operator", "--only", "roles", "--watched", "blue", "--watched", "red"])
    output = capsys.readouterr()
    roles = [manifest for manifest in read_all_yaml(output.out) if isinstance(manifest, dict)]
    namespaces = [
        manifest["metadata"]["namespace"]
        for manifest in roles
        if manifest["kind"] == "RoleBinding"
    ]
    assert (namespaces, output.err) == (["blue", "red"], "")


def test_a_type_of_all_kinds_gives_no_rules_and_hides_no_other_type() -> None:
    manager = Manager(FakeApi(VirtualClock()), options=ManagerOptions(webhook_bind=":9443"))
    for plural in ("gadgets", "widgets"):
        kind = plural.title().removesuffix("s")
        manager.get_informer(Resource("example.com", "v1", kind, plural, MetadataOnly))
    manager.add_webhook(Webhook("/validate-gadget", handle, Gadget))
    manager.add_webhook(Webhook("/validate-any", handle, MetadataOnly))
    _, configuration = create_webhook_configurations(manager, "op", namespace="home", kinds=[KIND])
    (webhook,) = configuration["webhooks"]
    assert webhook["clientConfig"]["service"]["path"] == "/validate-gadget"
