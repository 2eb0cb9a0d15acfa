"""Requests to the fake API, as tests count and match them, and the failures of some of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.errors import ControllerError
from controller.meta import Key


@dataclass(frozen=True, slots=True)
class Request:
    """A request that the fake API got.

    Args:
        method: for example `PATCH`; also `WATCH`, `LIST`, and `DISCOVER` for discovery.
        resource: the kind's full name, for example `widgets.example.com`; empty for discovery.
        key: namespace and name; the name is empty for a collection. For discovery, the name is the
            path.
        subresource: for example `status`; empty for the object itself.
        body: the body of the request, decoded; two requests are equal even if it differs.
    """

    method: str
    resource: str
    key: Key
    subresource: str = ""
    body: Any = field(default=None, compare=False, repr=False)

    @property
    def verb(self) -> str:
        """The method in lower case."""
        return self.method.lower()

    @property
    def plural(self) -> str:
        """The kind's plural without its group."""
        return self.resource.partition(".")[0]

    @property
    def namespace(self) -> str:
        """The namespace; empty for all, and for cluster-scoped kinds."""
        return self.key.namespace

    @property
    def name(self) -> str:
        """The name; empty for a collection."""
        return self.key.name

    def matches(self, **conditions: str) -> bool:
        """Return whether each named part, such as `method` or `plural`, has the wanted value."""
        return all(getattr(self, part) == value for part, value in conditions.items())


@dataclass(slots=True)
class _Fault:
    """A failure of the next requests that fit.

    Args:
        conditions: properties of Request with the values that they must have.
        error: the error to raise; None to carry out the request and lose its answer.
        times: how many more requests fail.
    """

    conditions: Mapping[str, str]
    error: ControllerError | None
    times: int


class Faults:
    """The failures that a test has ordered."""

    def __init__(self) -> None:
        self._faults: list[_Fault] = []

    def add(
        self, error: ControllerError | None, times: int, conditions: Mapping[str, str]
    ) -> None:
        """Order a failure of requests; watches fail only if `conditions` names them.

        Args:
            error: the error to raise; None to carry out the request and lose its answer.
            times: how many requests fail.
            conditions: properties of Request with the values that they must have.
        """
        self._faults.append(_Fault(conditions, error, times))

    def clear(self) -> None:
        """Forget all failures that were ordered."""
        self._faults.clear()

    def raise_ordered(self, request: Request) -> bool:
        """Raise the error that was ordered for a request, and count it as done.

        Returns:
            Whether a test ordered that the answer of the request is lost.

        Raises:
            ControllerError: the error that was ordered.
        """
        for fault in self._faults:
            names_method = not {"method", "verb"}.isdisjoint(fault.conditions)
            if request.method == "WATCH" and not names_method:
                # A fault for requests in general must not be used up by a watch that begins.
                continue
            if fault.times > 0 and request.matches(**fault.conditions):
                fault.times -= 1
                if fault.error is not None:
                    raise fault.error
                return True  # the request runs, and its answer is lost
        return False
