"""Parts of sentences that many messages share: counted nouns, and lists and texts that are cut."""

from collections.abc import Sequence

NAMED_AT_MOST = 5
"""Up to so many items are named in a message; the others are counted."""


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 IP", "2 IPs".

    A verb may follow the noun: `count_noun(number, "IP is", "IPs are")`.

    Args:
        number: how many.
        noun: in the singular.
        plural: of the noun; empty for the noun with an s.
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def count_addresses(number: int, of: str = "") -> str:
    """Return a number of addresses: "1 address", "8 load-balancer addresses".

    Args:
        number: how many.
        of: what kind of addresses; empty for none in particular.
    """
    kind = f"{of} " if of else ""
    return count_noun(number, f"{kind}address", f"{kind}addresses")


def truncate(message: str, longest: int) -> str:
    """Return a text, or its first characters and an ellipsis if it is longer.

    Args:
        message: of any origin.
        longest: how many characters are kept, without the ellipsis.
    """
    return message if len(message) <= longest else f"{message[:longest]}…"


def name_with_count(
    items: Sequence[str], separator: str = ", ", named_at_most: int = NAMED_AT_MOST
) -> str:
    """Return the first items as a list, and how many more there are.

    Args:
        items: all of them.
        separator: between two items.
        named_at_most: how many items are named.
    """
    more = len(items) - named_at_most
    counted = [f"and {more} more"] if more > 0 else []
    return separator.join([*items[:named_at_most], *counted])
