"""Which fields a type names: also those that its library leaves out, and not those it lets in."""

from collections.abc import Callable
from typing import Any

import msgspec
import pydantic

from controller.webhooks import Conversion, Spoke
from tests.controller.webhooks.conversions import GIZMOS, build_gizmo, convert_objects

Json = dict[str, Any]


class Open(pydantic.BaseModel, extra="allow"):
    """A model that lets in what it does not name."""


class OldPart(Open):
    """A part of v1."""

    name: str


class OldSpec(Open):
    """Version v1."""

    size: int = 0
    first: OldPart | None = None
    parts: list[OldPart] = []


class Old(Open):
    """A Gizmo of v1."""

    spec: OldSpec


class NewPart(Open):
    """A part of v2."""

    name: str


class NewSpec(Open):
    """Version v2: the size has another name."""

    width: int = 0
    first: NewPart | None = None
    parts: list[NewPart] = []


class New(Open):
    """A Gizmo of v2."""

    spec: NewSpec


def to_v2(old: Old) -> New:
    """Make everything anew."""
    first = old.spec.first and NewPart(name=old.spec.first.name)
    parts = [NewPart(name=part.name) for part in old.spec.parts]
    return New(spec=NewSpec(width=old.spec.size, first=first, parts=parts))


def to_v1(new: New) -> Old:
    """Make everything anew."""
    first = new.spec.first and OldPart(name=new.spec.first.name)
    parts = [OldPart(name=part.name) for part in new.spec.parts]
    return Old(spec=OldSpec(size=new.spec.width, first=first, parts=parts))


async def test_extra_fields_of_a_pydantic_model_are_kept_at_every_depth() -> None:
    conversion = Conversion(
        "/convert", GIZMOS, New, Spoke("v1", Old, to_hub=to_v2, from_hub=to_v1)
    )
    entries = {"first": {"name": "a", "note": [1]}, "parts": [{"name": "b", "note": "mine"}]}
    before = {**build_gizmo("v1", {"size": 3, "hidden": {"a": 1}, **entries}), "status": {"x": 1}}
    (there,) = await convert_objects(conversion, "v2", before)
    assert there["spec"] == {"width": 3, "hidden": {"a": 1}, **entries}
    assert there["status"] == {"x": 1}
    assert await convert_objects(conversion, "v1", there) == [before]


async def test_a_function_may_pass_on_the_extra_fields_of_a_pydantic_model() -> None:
    def hand_on(old: Old) -> New:
        return New(spec=NewSpec.model_validate({"width": 1, **(old.spec.model_extra or {})}))

    conversion = Conversion(
        "/convert", GIZMOS, New, Spoke("v1", Old, to_hub=hand_on, from_hub=to_v1)
    )
    (there,) = await convert_objects(conversion, "v2", build_gizmo("v1", {"size": 1, "hidden": 7}))
    assert there["spec"] == {"width": 1, "hidden": 7}


class Port(msgspec.Struct, omit_defaults=True):
    """An entry whose defaults are not encoded."""

    name: str
    number: int = 80


class Ports(msgspec.Struct, omit_defaults=True):
    """A spec whose defaults are not encoded."""

    ready: bool = True
    note: str | msgspec.UnsetType = msgspec.UNSET
    ports: list[Port] = []
    ports_by_name: dict[str, Port] = {}


class Ported(msgspec.Struct):
    """The same type in both versions."""

    spec: Ports


def make_conversion(function: Callable[[Ported], Ported]) -> Conversion[Ported]:
    """Return a conversion with one function for both ways."""
    return Conversion(
        "/convert", GIZMOS, Ported, Spoke("v1", Ported, to_hub=function, from_hub=function)
    )


async def test_a_field_is_kept_though_its_type_omits_it_for_having_its_default() -> None:
    spec = {"ready": True, "ports": [], "ports_by_name": {"x": {"name": "a", "number": 80}}}
    (there,) = await convert_objects(
        make_conversion(lambda old: old), "v2", build_gizmo("v1", spec)
    )
    assert there["spec"] == spec


async def test_a_field_that_had_its_default_is_changed_though_its_type_omits_that() -> None:
    def change(old: Ported) -> Ported:
        ports = [*old.spec.ports, Port("z")]
        named_ports = {name: Port(port.name, 81) for name, port in old.spec.ports_by_name.items()}
        return Ported(Ports(ready=not old.spec.ready, ports=ports, ports_by_name=named_ports))

    spec: Json = {
        "ready": True,
        "ports": [{"name": "a", "number": 80}],
        "ports_by_name": {"x": {"name": "b", "number": 80, "hidden": 1}},
    }
    (there,) = await convert_objects(make_conversion(change), "v2", build_gizmo("v1", spec))
    assert there["spec"] == {
        "ready": False,
        "ports": [{"name": "a", "number": 80}, {"name": "z", "number": 80}],
        "ports_by_name": {"x": {"name": "b", "number": 81, "hidden": 1}},
    }
    conversion = make_conversion(lambda _: Ported(Ports()))
    (back,) = await convert_objects(conversion, "v1", build_gizmo("v2", {"ready": False}))
    assert back["spec"] == {"ready": True}
