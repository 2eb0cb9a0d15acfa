"""Parts of sentences that many messages share: counted nouns, and lists and texts that are cut."""

from collections.abc import Sequence

NAMED_AT_MOST = 5
"""The number of items that a message names; it counts the remaining ones."""


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 IP", "2 IPs".

    A verb may follow the noun: `count_noun(number, "IP is", "IPs are")`.

    Args:
        number: how many.
        noun: the noun in the singular.
        plural: its plural; empty for the noun with an s.
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def count_addresses(number: int, of: str = "") -> str:
    """Return a number of addresses: "1 address", "8 load-balancer addresses".

    Args:
        number: how many.
        of: the kind of addresses, for example "load-balancer"; empty to name no kind.
    """
    kind = f"{of} " if of else ""
    return count_noun(number, f"{kind}address", f"{kind}addresses")


def truncate(message: str, longest: int) -> str:
    """Return a text, or its first characters and an ellipsis if it is longer than `longest`.

    Args:
        longest: the number of characters that are kept, without the ellipsis.
    """
    return message if len(message) <= longest else f"{message[:longest]}…"


def name_with_count(
    items: Sequence[str], separator: str = ", ", named_at_most: int = NAMED_AT_MOST
) -> str:
    """Return a text that names the first items and counts the remaining ones: "a, b, and 3 more".

    Args:
        items: all items.
        named_at_most: the number of items that are named.
    """
    remaining = len(items) - named_at_most
    rest = [f"and {remaining} more"] if remaining > 0 else []
    return separator.join([*items[:named_at_most], *rest])
