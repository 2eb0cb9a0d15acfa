"""Conversion between the versions of a kind, for a CRD with `strategy: Webhook`.

One version is the hub, the others are spokes. Each spoke has a function to the hub and one back,
so n versions need 2(n-1) functions. An object is converted from one spoke to another in two steps,
by way of the hub.

| what happens                                  | what the API server gets                      |
|-----------------------------------------------|-----------------------------------------------|
| the functions return                          | Success, the objects in the order of request  |
| an object does not fit the type of its version| Failure, with the field                       |
| a function raises                             | Failure, with the text of the exception       |
| the returned object breaks a rule             | Failure, with the rule                        |
| the objects take too long                     | Failure: there is no failurePolicy to decide  |

A Failure names the object. Its text reaches the person who reads or writes the object. It may
quote the exception, because a function knows nothing but the object. If one object of a request
cannot be converted, none is returned, because an API server takes all or none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar, get_origin

import msgspec
from anyio.lowlevel import checkpoint

from controller.callbacks import call_plain, check_plain, name_function, safe_repr
from controller.clock import Clock
from controller.codec import DECODE_ERRORS, encode, get_decoder
from controller.loggers import get_logger
from controller.meta import Key, Untyped
from controller.resource import Resource
from controller.supervisor import is_bug
from controller.webhooks.carrying import UnfitResult, carry_over
from controller.webhooks.conversionreview import (
    ConversionReview,
    check_converted,
    decode_review,
    encode_failure,
    encode_success,
)
from controller.webhooks.envelope import BadReview

S = TypeVar("S")
T = TypeVar("T")
H = TypeVar("H")
Json = dict[str, Any]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Spoke(Generic[S, H]):
    """A version that is converted by way of the hub.

    The functions may change the object that they get. They must depend on nothing else, because
    the API server may convert an object any number of times. An object that is converted to the
    hub and back must be the same as before.

    Args:
        version: for example `v1`.
        type: what objects of this version are decoded to: any type that msgspec decodes, a
            pydantic model, or `dict` for plain JSON. Fields that the type does not name are
            carried over; with `dict` the functions have to do so.
        to_hub: converts an object of this version to the hub's.
        from_hub: converts an object of the hub to this version.

    Raises:
        TypeError: a function is async or cannot be called.
    """

    version: str
    type: type[S]
    to_hub: Callable[[S], H]
    from_hub: Callable[[H], S]

    def __post_init__(self) -> None:
        for function in (self.to_hub, self.from_hub):
            check_plain(function, f"a conversion of version {self.version}", "object")


class _Step(NamedTuple):
    """One call of a function, from one version to the next.

    Args:
        function: a spoke's `to_hub` or `from_hub`.
        source_type: the type that its argument must have.
        result_type: the type that it must return; another is an error of the conversion.
        api_version: group and version of the result.
    """

    function: Callable[[Any], Any]
    source_type: type[Any]
    result_type: type[Any]
    api_version: str


class _Unconvertible(Exception):
    """An object cannot be converted.

    Args:
        message: which object, and why.
        has_bug: whether the error is a mistake in code, as `is_bug` has it.
    """

    def __init__(self, message: str, *, has_bug: bool) -> None:
        super().__init__(message)
        self.has_bug = has_bug


class Conversion(Generic[H]):
    """A path, and the functions between the versions of a kind.

    Args:
        path: as in the CRD's spec.conversion.webhook.clientConfig.service.path, for example
            `/convert-widget`.
        hub: the kind, in the version that all others are converted to and from.
        type: what objects of the hub are decoded to, as in a Spoke. It is `dict` if the types of
            the spokes are `dict`.
        *spokes: the other versions.

    Raises:
        ValueError: the path does not begin with a slash, two versions have the same name, a type
            is Untyped, or some versions are plain JSON and others are not.
    """

    def __init__(
        self,
        path: str,
        hub: Resource[Any],
        type: type[H],  # noqa: A002 - as in Resource
        *spokes: Spoke[Any, H],
    ) -> None:
        if not path.startswith("/") or path == "/":
            raise ValueError(
                f"webhook path {path!r} must begin with a slash, and have a name after it"
            )
        self.path = path
        self.resource = hub
        self._type = type
        self._spokes = {self._format_api_version(spoke.version): spoke for spoke in spokes}
        names = [hub.version, *(spoke.version for spoke in spokes)]
        # Too few distinct names: two versions have the same name, or there is no spoke.
        if len(set(names)) < max(len(names), 2):
            raise ValueError(
                f"a conversion needs several different versions, but got {', '.join(names)}"
            )
        types = (type, *(spoke.type for spoke in spokes))
        if Untyped in types:
            # It has the metadata twice, as a field and in its body, and they could differ.
            raise ValueError("a conversion cannot have the type Untyped: use dict, for plain JSON")
        if len({_is_plain_json(version_type) for version_type in types}) > 1:
            raise ValueError(
                "if the type of one version is dict (plain JSON), all types must be dict"
            )

    async def answer(self, body: bytes, clock: Clock, seconds: float) -> tuple[bytes, bool]:
        """Return the body of the response to a request, and whether a function has a bug.

        Errors and a conversion that takes too long are answered with a Failure.

        Args:
            body: a ConversionReview.
            clock: measures the time.
            seconds: how long the conversion of all objects may take.
        """
        try:
            review = decode_review(body)
        except BadReview as error:
            log.warning("Bad conversion request", webhook=self.path, error=str(error))
            return encode_failure(str(error), error.uid, error.api_version), False
        converted: list[Json] = []
        try:
            with clock.move_on_after(seconds) as scope:
                for data in review.objects:
                    converted.append(self._convert(data, review))
                    await checkpoint()  # the functions never wait: only here the time can end
        except _Unconvertible as error:
            return encode_failure(str(error), review.uid, review.api_version), error.has_bug
        if scope.cancelled_caught:
            subject = f"webhook {self.path} did not convert {len(review.objects)} objects"
            log.error("Conversion request not answered in time", webhook=self.path)
            message = f"{subject} within {seconds:g} s"
            return encode_failure(message, review.uid, review.api_version), False
        log.debug("Conversion request answered", webhook=self.path, objects=len(converted))
        return encode_success(review, converted), False

    def refuse(self, message: str, code: int) -> tuple[bytes, int]:
        """Return the response to a request whose body cannot be read, and its HTTP status code.

        The response is a Status, and the API server shows its message. A ConversionReview would
        need the uid of the request, which is unknown; the API server would reject it unread.

        Args:
            message: what is wrong with the body.
            code: the HTTP status code.
        """
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
        return encode({**status, "message": message}), code

    def _convert(self, data: bytes, review: ConversionReview) -> Json:
        """Return one object in the desired version.

        Raises:
            _Unconvertible: any error; it is logged, too, with the name of the object.
        """
        source: Json = {}
        try:
            source = _decode(data, dict)
            converted = source
            for step in self._list_steps(source, review.desired):
                converted = _run_step(step, converted)
            check_converted(source, converted)
        except Exception as error:
            has_bug = is_bug(error)
            key = _read_key(source)
            log.exception(
                "Conversion panic" if has_bug else "Conversion error",
                webhook=self.path,
                requestID=review.uid,
                kind=self.resource.kind,
                namespace=key.namespace,
                name=key.name,
                version=source.get("apiVersion"),
                desired=review.desired,
            )
            raise _Unconvertible(
                f"{self.resource.kind} {key} cannot be converted from {source.get('apiVersion')}"
                f" to {review.desired}: {_describe_error(error)}",
                has_bug=has_bug,
            ) from error
        return converted

    def _list_steps(self, source: Json, desired: str) -> Iterator[_Step]:
        """Yield the steps from the version of `source` to the desired one: none, one or two.

        Raises:
            _UnusableObject: the object is of another kind, or one of the versions is not converted
                here.
        """
        hub, version = self.resource.api_version, str(source.get("apiVersion"))
        versions = [hub, *self._spokes]
        if source.get("kind") != self.resource.kind or not {version, desired} <= set(versions):
            raise _UnusableObject(
                f"webhook {self.path} converts {self.resource.kind} of"
                f" {', '.join(sorted(versions))}, but was asked to convert {source.get('kind')} of"
                f" {version} to {desired}"
            )
        if version not in (hub, desired):
            spoke = self._spokes[version]
            yield _Step(spoke.to_hub, spoke.type, result_type=self._type, api_version=hub)
        if desired not in (hub, version):
            spoke = self._spokes[desired]
            yield _Step(spoke.from_hub, self._type, result_type=spoke.type, api_version=desired)

    def _format_api_version(self, version: str) -> str:
        """Return group and version, as in an object's apiVersion, of a version of the kind."""
        return replace(self.resource, version=version).api_version


class _UnusableObject(Exception):
    """The object cannot be passed to a function; the text says why."""


def _run_step(step: _Step, source: Json) -> Json:
    """Return `source` converted by one step.

    Raises:
        _UnusableObject: `source` does not fit the type of its version.
        UnfitResult: the function returned another type, or the result has no place for a field.
        Exception: what the function raised.
    """
    data = encode(source)
    parsed = _decode(data, step.source_type)
    # The fields of `source` that its type names. The function may change its argument, so they are
    # read before the call.
    named_fields = _encode_named_fields(parsed, data)
    returned = call_plain(step.function, parsed)
    if not isinstance(returned, get_origin(step.result_type) or step.result_type):
        raise UnfitResult(
            f"{name_function(step.function)} returned {safe_repr(returned)}, which is not of type"
            f" {_get_type_name(step.result_type)}"
        )
    # Plain JSON has all fields. A typed result lacks the fields that no type names.
    if _is_plain_json(step.source_type):
        converted = _encode_plain(returned)
    else:
        result = _add_omitted(returned, _encode_plain(returned))
        # apiVersion and kind are set below; the types need not name them.
        converted = carry_over(_drop_type(source), _drop_type(named_fields), _drop_type(result))
    return {**converted, "apiVersion": step.api_version, "kind": source["kind"]}


def _decode(data: bytes, object_type: type[T]) -> T:
    """Return an object decoded to a type.

    Raises:
        _UnusableObject: the object does not fit the type.
    """
    try:
        parsed: T = get_decoder(object_type)(data)
    except DECODE_ERRORS as error:
        raise _UnusableObject(
            f"it cannot be read as {_get_type_name(object_type)}: {error}"
        ) from error
    return parsed


def _is_plain_json(version_type: type[Any]) -> bool:
    """Return whether a type is `dict` or `dict[...]`, which means plain JSON."""
    return (get_origin(version_type) or version_type) is dict


def _encode_plain(obj: Any) -> Json:
    """Return an object of any type as decoded JSON."""
    # A pydantic model is known by its method: an isinstance check would import pydantic.
    dump = getattr(obj, "model_dump_json", None)
    if dump is None:
        decoded: Json = msgspec.json.decode(encode(obj))
    else:  # warnings=False: the labels of an ObjectMeta are a read-only mapping
        decoded = msgspec.json.decode(dump(by_alias=True, fallback=dict, warnings=False))
    return decoded


def _encode_named_fields(parsed: Any, data: bytes) -> Json:
    """Return the fields of an object that its type names, as decoded JSON.

    It is empty for plain JSON.

    Args:
        parsed: the object, which stays unchanged.
        data: the JSON that it was decoded from.
    """
    if isinstance(parsed, dict):
        return {}  # plain JSON: nothing is carried over
    if hasattr(parsed, "model_dump_json"):
        # A second copy: the function gets the first one with its extra fields.
        parsed = _decode(data, type(parsed))
        _drop_unnamed(parsed)
    named_fields: Json = _add_omitted(parsed, _encode_plain(parsed))
    return named_fields


def _drop_unnamed(value: Any) -> None:
    """Remove extra fields (extra="allow") from pydantic models, at any depth, in place."""
    if isinstance(value, Mapping):
        nested: Iterable[Any] = value.values()
    elif isinstance(value, list | tuple):
        nested = value
    elif hasattr(value, "model_dump_json"):
        (value.model_extra or {}).clear()  # model_extra is None if the model allows none
        nested = [getattr(value, name) for name in type(value).model_fields]
    else:
        return
    for item in nested:
        _drop_unnamed(item)


def _add_omitted(value: Any, encoded: Any) -> Any:
    """Return an encoded value with the fields that were omitted because they have their defaults.

    Structs with `omit_defaults` omit such fields, although their type names them. A field that is
    UNSET stays omitted: it is absent from the object.

    Args:
        value: of any type.
        encoded: `value` as decoded JSON.
    """
    if isinstance(encoded, list) and isinstance(value, list | tuple):
        return [_add_omitted(*pair) for pair in zip(value, encoded, strict=False)]
    if not isinstance(encoded, dict):
        return encoded  # a scalar, for example: only objects have fields
    members = {
        name: _add_omitted(member, encoded[name] if name in encoded else _encode_plain(member))
        for name, member in _list_members(value, encoded)
        if member is not msgspec.UNSET
    }
    return {**encoded, **members}


def _list_members(value: Any, encoded: Json) -> Iterable[tuple[str, Any]]:
    """Return the names in JSON and the values of the members of a value that is a JSON object."""
    if isinstance(value, Mapping):
        # By position: the keys of a mapping may be encoded to other texts.
        return zip(encoded, value.values(), strict=False)
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return ((field.encode_name, getattr(value, field.name)) for field in fields)
    if is_dataclass(value):
        return ((name, getattr(value, name)) for name in encoded)
    return ()  # a pydantic model: its JSON has all fields


def _drop_type(obj: Json) -> Json:
    """Return an object without apiVersion and kind, which `_run_step` sets."""
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}


def _read_key(obj: Json) -> Key:
    """Return the key of an object for messages; empty texts where its metadata is malformed."""
    meta = obj.get("metadata")
    metadata = meta if isinstance(meta, dict) else {}
    return Key(str(metadata.get("namespace", "")), str(metadata.get("name", "")))


def _describe_error(error: Exception) -> str:
    """Return the text of an error; its type comes first if Python raises it for a mistake in code.

    Such a text says little alone: that of a KeyError is only the key.
    """
    name = type(error).__name__
    # UnfitResult counts as a bug, but its text is ours, and says all.
    if isinstance(error, UnfitResult) or not is_bug(error):
        return str(error) or name
    return f"{name}: {error}"


def _get_type_name(version_type: Any) -> str:
    """Return the name of a type for messages; a type such as `dict[str, Any]` as it is written."""
    return str(getattr(version_type, "__qualname__", version_type))
