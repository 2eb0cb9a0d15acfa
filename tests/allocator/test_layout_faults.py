"""Every fault of a pool's specification has its sentence, and they come in order."""

import pytest

from allocator import validate_pool

Case = tuple[str, list[str], list[tuple[str, str]], list[str]]


def describe_unsorted(start: str, end: str) -> str:
    return (
        "ranges must be sorted by start IP and non-overlapping; "
        f"ranges[1].start ({start}) must be greater than ranges[0].end ({end})"
    )


CASES: dict[str, Case] = {
    "a bare pool": ("10.40.0.0/24", [], [], []),
    "host bits in the CIDR": ("10.40.0.7/24", [], [("10.40.0.0", "10.40.0.255")], []),
    "no CIDR stops everything": (
        "10.40.0.0",
        ["nonsense"],
        [("a", "b")],
        [
            (
                'invalid pool CIDR: invalid CIDR notation: "10.40.0.0" is not ADDRESS/PREFIX, '
                "as in 10.40.0.0/24"
            )
        ],
    ),
    "reserved outside": (
        "10.40.0.0/24",
        ["10.41.0.0/28", "10.40.0.0/28", "10.40.0.0/23"],
        [],
        [
            'reserved CIDR "10.41.0.0/28" is not within pool CIDR "10.40.0.0/24"',
            'reserved CIDR "10.40.0.0/23" is not within pool CIDR "10.40.0.0/24"',
        ],
    ),
    "reserved malformed": (
        "10.40.0.0/24",
        ["10.40.0.0/40"],
        [],
        [
            (
                'invalid reserved CIDR "10.40.0.0/40": invalid CIDR notation: '
                '"10.40.0.0/40" needs a prefix length from 0 to 32'
            )
        ],
    ),
    "reserved of the other family": (
        "10.40.0.0/24",
        ["fd00::/64"],
        [],
        ['invalid reserved CIDR "fd00::/64": it is IPv6, the pool is IPv4'],
    ),
    "ends that are no addresses": (
        "10.40.0.0/24",
        [],
        [("10.40.0.300", "x"), ("10.40.0.1", ""), ("fd00::1", "fd00::2")],
        [
            'ranges[0].start "10.40.0.300" is not a valid IPv4 address',
            'ranges[1].end "" is not a valid IPv4 address',
            'ranges[2].start "fd00::1" is not a valid IPv4 address',
        ],
    ),
    "ends that are no IPv6 addresses": (
        "fd00::/64",
        [],
        [("10.40.0.1", "fd00::2")],
        ['ranges[0].start "10.40.0.1" is not a valid IPv6 address'],
    ),
    "start after end": (
        "10.40.0.0/24",
        [],
        [("10.40.0.9", "10.40.0.1")],
        ["ranges[0] start 10.40.0.9 is after end 10.40.0.1"],
    ),
    "one address": ("10.40.0.0/24", [], [("10.40.0.9", "10.40.0.9")], []),
    "outside the CIDR": (
        "10.40.0.0/24",
        [],
        [("10.39.255.255", "10.40.0.1"), ("10.40.0.5", "10.40.1.0")],
        [
            "ranges[0] (10.39.255.255-10.40.0.1) falls outside pool CIDR 10.40.0.0/24",
            "ranges[1] (10.40.0.5-10.40.1.0) falls outside pool CIDR 10.40.0.0/24",
        ],
    ),
    "overlapping by one address": (
        "10.40.0.0/24",
        [],
        [("10.40.0.0", "10.40.0.9"), ("10.40.0.9", "10.40.0.20")],
        [describe_unsorted("10.40.0.9", "10.40.0.9")],
    ),
    "touching": (
        "10.40.0.0/24",
        [],
        [("10.40.0.0", "10.40.0.9"), ("10.40.0.10", "10.40.0.20")],
        [],
    ),
    "unsorted": (
        "10.40.0.0/24",
        [],
        [("10.40.0.100", "10.40.0.109"), ("10.40.0.0", "10.40.0.9")],
        [describe_unsorted("10.40.0.0", "10.40.0.109")],
    ),
    "after a range whose end is malformed": (
        "10.40.0.0/24",
        [],
        [("10.40.0.100", "x"), ("10.40.0.0", "10.40.0.9")],
        ['ranges[0].end "x" is not a valid IPv4 address'],
    ),
    "after a reversed range": (
        "10.40.0.0/24",
        [],
        [("10.40.0.100", "10.40.0.50"), ("10.40.0.20", "10.40.0.29")],
        [
            "ranges[0] start 10.40.0.100 is after end 10.40.0.50",
            describe_unsorted("10.40.0.20", "10.40.0.50"),
        ],
    ),
    "outside and unsorted": (
        "10.40.0.0/24",
        [],
        [("10.40.0.100", "10.40.0.109"), ("10.39.0.0", "10.39.0.9")],
        [
            "ranges[1] (10.39.0.0-10.39.0.9) falls outside pool CIDR 10.40.0.0/24",
            describe_unsorted("10.39.0.0", "10.40.0.109"),
        ],
    ),
    "reserved reaches out of a range": (
        "10.40.0.0/24",
        ["10.40.0.0/26"],
        [("10.40.0.0", "10.40.0.31")],
        ["reserved CIDR 10.40.0.0/26 straddles ranges[0] boundary (10.40.0.0-10.40.0.31)"],
    ),
    "reserved reaches into a range": (
        "10.40.0.0/24",
        ["10.40.0.0/26"],
        [("10.40.0.63", "10.40.0.90")],
        ["reserved CIDR 10.40.0.0/26 straddles ranges[0] boundary (10.40.0.63-10.40.0.90)"],
    ),
    "reserved from one range into the next": (
        "10.40.0.0/24",
        ["10.40.0.0/26"],
        [("10.40.0.0", "10.40.0.31"), ("10.40.0.40", "10.40.0.90")],
        [
            "reserved CIDR 10.40.0.0/26 straddles ranges[0] boundary (10.40.0.0-10.40.0.31)",
            "reserved CIDR 10.40.0.0/26 straddles ranges[1] boundary (10.40.0.40-10.40.0.90)",
        ],
    ),
    "reserved begins with the last address of a range": (
        "10.40.0.0/24",
        ["10.40.0.32/28"],
        [("10.40.0.0", "10.40.0.32")],
        ["reserved CIDR 10.40.0.32/28 straddles ranges[0] boundary (10.40.0.0-10.40.0.32)"],
    ),
    "reserved ends with the last address of a range": (
        "10.40.0.0/24",
        ["10.40.0.16/28"],
        [("10.40.0.0", "10.40.0.31")],
        [],
    ),
    "reserved holds a whole range": (
        "10.40.0.0/24",
        ["10.40.0.0/26"],
        [("10.40.0.1", "10.40.0.31"), ("10.40.0.64", "10.40.0.90")],
        [],
    ),
    "reserved inside a range, and outside all": (
        "10.40.0.0/24",
        ["10.40.0.0/28", "10.40.0.32/28", "10.40.0.240/28"],
        [("10.40.0.16", "10.40.0.239")],
        [],
    ),
    "a straddling reservation outside the pool is both": (
        "10.40.0.0/24",
        ["10.40.0.0/23"],
        [("10.40.0.0", "10.40.0.9")],
        [
            'reserved CIDR "10.40.0.0/23" is not within pool CIDR "10.40.0.0/24"',
            "reserved CIDR 10.40.0.0/23 straddles ranges[0] boundary (10.40.0.0-10.40.0.9)",
        ],
    ),
    "everything at once, in order": (
        "10.40.0.0/24",
        ["10.40.0.0/26", "nonsense/8", "10.50.0.0/24"],
        [("10.40.0.0", "10.40.0.9"), ("10.40.0.5", "10.40.0.1"), ("y", "10.40.0.1")],
        [
            (
                'invalid reserved CIDR "nonsense/8": invalid CIDR notation: '
                '"nonsense/8" is not ADDRESS/PREFIX, as in 10.40.0.0/24'
            ),
            'reserved CIDR "10.50.0.0/24" is not within pool CIDR "10.40.0.0/24"',
            "ranges[1] start 10.40.0.5 is after end 10.40.0.1",
            'ranges[2].start "y" is not a valid IPv4 address',
            "reserved CIDR 10.40.0.0/26 straddles ranges[0] boundary (10.40.0.0-10.40.0.9)",
        ],
    ),
    "IPv4 written as IPv6 counts as IPv4": (
        "10.40.0.0/24",
        ["::ffff:10.40.0.0/124"],
        [("::ffff:10.40.0.16", "10.40.0.239")],
        [],
    ),
    "IPv6": ("fd00::/64", ["fd00::/120"], [("fd00::100", "fd00::ffff")], []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_faults_of_a_pool_are_named(case: Case) -> None:
    cidr, reserved, ranges, messages = case
    assert validate_pool(cidr, reserved, ranges) == messages
