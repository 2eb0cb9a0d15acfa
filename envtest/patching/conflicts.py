"""The answer to somebody who applies fields that belong to others."""

from envtest.patching import fieldset
from envtest.patching.entries import Manager
from envtest.patching.errors import ApplyConflict, Cause
from envtest.patching.fieldset import Fields


class Conflicts(Exception):
    """Fields that an apply would take from others, by owner."""

    def __init__(self, lost: dict[Manager, Fields]) -> None:
        """Take at least one field."""
        super().__init__("conflicts")
        self.lost = lost

    def refusal(self) -> ApplyConflict:
        """Return the answer: owners in the order of their identifiers, fields in tree order.

        (The real server lists the causes of several owners in random order, the sentence in this.)
        """
        owners = sorted(self.lost, key=Manager.text)
        found = {
            who: [fieldset.shown(path) for path in fieldset.paths(self.lost[who])]
            for who in owners
        }
        causes = [
            Cause("FieldManagerConflict", f"conflict with {who.shown()}", field)
            for who in owners
            for field in found[who]
        ]
        if len(causes) == 1:
            text = f"1 conflict: {causes[0].message}: {causes[0].field}"
        else:
            lines = [
                "\n".join([f"conflicts with {who.shown()}:", *(f"- {f}" for f in found[who])])
                for who in owners
            ]
            text = f"{len(causes)} conflicts: " + "\n".join(lines)
        return ApplyConflict(f"Apply failed with {text}", causes)
