"""Unquoted words mean what kubectl takes them for."""

import pytest

from reconcilers.cli.reading.yamltext import Malformed, resolve

# What `kubectl create --dry-run=client -o json` (1.32) made of each word.
KUBECTL = {
    "1e3": 1000,
    "010": 8,
    "1e400": "1e400",
    "12:30:45": "12:30:45",
    "2026-01-01": "2026-01-01",
    "-0x10": -16,
    "0o17": 15,
    "oN": "oN",
    "1_000": 1000,
    "yES": "yES",
    "On": True,
    "TRUE": True,
    "NO": False,
    "tRUE": "tRUE",
    "~": None,
    "NULL": None,
    ".5": 0.5,
    "0o9": "0o9",
    "+12": 12,
    "-": "-",
    "0x1F": 31,
    "1__0": 10,
    "0b11": 3,
    "_1": "_1",
    "0b12": "0b12",
    "1.5_0": 1.5,
    "1.": 1,
    "-0o7": -7,
    "08": 8,
    "09.5": 9.5,
    "-.5": -0.5,
    "Yes": True,
    "190:20:30": "190:20:30",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "=": "=",
    "0.1e-3": 0.0001,
    "y": True,
    "n": False,
    "10.40.0.0": "10.40.0.0",
    "10.40.0.0/24": "10.40.0.0/24",
}


@pytest.mark.parametrize(("word", "value"), KUBECTL.items())
def test_a_word_means_what_kubectl_takes_it_for(word: str, value: object) -> None:
    found = resolve(word)
    assert found == value
    assert isinstance(found, bool) == isinstance(value, bool)
    assert isinstance(found, str) == isinstance(value, str)


@pytest.mark.parametrize("word", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
def test_what_json_cannot_carry_is_refused_and_named(word: str) -> None:
    with pytest.raises(Malformed, match="JSON"):
        resolve(word)


def test_a_number_of_absurd_length_is_a_text() -> None:
    assert resolve("9" * 5000) == "9" * 5000
