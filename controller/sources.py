"""Which part of the world a loop follows, and what is said when it cannot."""

from dataclasses import dataclass

from controller.errors import ControllerError, Forbidden, NotFound


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a kind.

    Args:
        namespace: empty for all.
        labels: a label selector.
        fields: a field selector.
    """

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The selectors as request parameters."""
        pairs = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in pairs.items() if value}


class SourceError(ControllerError):
    """The world cannot be seen: which verb on which kind failed, and why (`__cause__`)."""

    def __init__(self, verb: str, resource: str, cause: ControllerError) -> None:
        super().__init__(f"{verb} {resource}: {_hint(cause)}{cause}")
        self.verb = verb
        self.resource = resource
        self.__cause__ = cause


class CacheLagging(ControllerError):
    """What is known of a kind is too old: our own writes of so long ago have not come back."""

    def __init__(self, resource: str, seconds: float) -> None:
        super().__init__(
            f"watch {resource}: a write of ours of {seconds:.0f} s ago has not come back yet, so"
            " what others wrote since may be missing, too"
        )
        self.resource = resource
        self.seconds = seconds


def _hint(cause: ControllerError) -> str:
    match cause:
        case Forbidden():
            return "not allowed, a role has to grant it: "
        case NotFound():
            return "not served, is its CustomResourceDefinition installed? "
        case _:
            return ""
