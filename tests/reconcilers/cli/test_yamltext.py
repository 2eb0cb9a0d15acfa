"""YAML documents are parsed to values with their lines; errors name the line."""

import pytest

from reconcilers.cli.reading.yamltext import (
    Malformed,
    cut_at_separators,
    find_line,
    parse_word,
    parse_yaml,
)


def parse_documents(content: str) -> list[tuple[int, object]]:
    """Return each document of a text with the number of its first line."""
    return [
        document
        for before, piece in cut_at_separators(content)
        for document in parse_yaml(piece, before)
    ]


def read_fault(content: str) -> tuple[int, str]:
    """Return line and reason of the error about an invalid text."""
    with pytest.raises(Malformed) as caught:
        parse_documents(content)
    return caught.value.line, caught.value.reason


def test_every_value_carries_its_line() -> None:
    [(first, value)] = parse_documents("# a comment\n\na:\n  b:\n  - c: 1\n    d: 2\n")
    assert first == 3
    assert find_line(value, ("a",)) == 3
    assert find_line(value, ("a", "b", 0, "d")) == 6


def test_a_missing_path_has_the_line_of_the_value_that_encloses_it() -> None:
    [(_, value)] = parse_documents("a:\n  b: 1\n")
    assert find_line(value, ("a", "missing", "deeper")) == 1
    assert find_line(value, ("missing",)) == 1


def test_lines_are_counted_through_all_documents_of_a_file() -> None:
    stream = "---\n# only a comment\n---\nx: 1\n...\n---\nz: 2\n--- {w: 3}\n"
    assert parse_documents(stream) == [(4, {"x": 1}), (7, {"z": 2}), (8, {"w": 3})]


def test_a_separator_inside_a_string_does_not_end_the_document() -> None:
    [(_, value)] = parse_documents("a: |\n  ---\n  b\nc: '--- d'\n")
    assert value == {"a": "---\nb\n", "c": "--- d"}


def test_directives_before_the_first_document_are_no_document() -> None:
    assert parse_documents("%YAML 1.2\n---\na: 1\n") == [(3, {"a": 1})]


def test_a_duplicate_key_is_an_error_that_names_both_lines() -> None:
    line, reason = read_fault("a: 1\nb: 2\na: 3\n")
    assert line == 3
    assert "'a' appears twice, first in line 1" in reason


def test_merge_keys_add_missing_keys_only() -> None:
    [(_, value)] = parse_documents("base: &b {x: 1, w: 2}\nuse:\n  <<: *b\n  x: 3\n")
    assert value == {"base": {"x": 1, "w": 2}, "use": {"x": 3, "w": 2}}


def test_merging_anything_but_mappings_is_an_error() -> None:
    assert read_fault("a:\n  <<: [1]\n") == (2, "<< can only merge mappings")


def test_an_alias_stands_for_what_its_anchor_holds() -> None:
    [(_, value)] = parse_documents("a: &x [1, 2]\nb: *x\n")
    assert value == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize("content", ["a: *nothing\n", "a: &a\n  b: *a\n"])
def test_an_alias_to_a_missing_anchor_or_to_itself_is_an_error(content: str) -> None:
    assert "refers to itself or to nothing before it" in read_fault(content)[1]


def test_an_anchor_that_is_defined_twice_stands_for_the_later_value() -> None:
    assert parse_documents("a: &x 1\nb: &x 2\nc: *x\n") == [(1, {"a": 1, "b": 2, "c": 2})]


def test_an_alias_has_its_own_line_and_the_values_inside_have_those_of_the_anchor() -> None:
    [(_, value)] = parse_documents("a: &x {b: 1}\nc:\n- *x\n")
    assert find_line(value, ("c", 0)) == 3
    assert find_line(value, ("c", 0, "b")) == 1


def test_aliases_that_nest_too_deeply_are_an_error() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 400))]
    assert "nested more than 200 levels deep" in read_fault("\n".join(lines))[1]


def test_aliases_that_stand_for_too_many_values_are_an_error() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "aliases stand for more than" in read_fault("\n".join(lines))[1]


@pytest.mark.parametrize("opening", ["[", "- ", "? ", "{a: "])
def test_values_that_nest_too_deeply_are_an_error(opening: str) -> None:
    assert "nested more than 200 levels deep" in read_fault(opening * 50_000 + "a")[1]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a: !!python/object:os.system x\n", "tag"),
        ("a: !!set {b}\n", "tag"),
        ("a: !secret b\n", "tag"),
        ("a: !!int many\n", "'many' is no int"),
        ("? [1, 2]\n: b\n", "a key must be a string or a number"),
        ("a: .inf\n", "JSON"),
        ("a: \x07\n", "control character"),
    ],
)
def test_yaml_that_kubernetes_does_not_accept_is_an_error(content: str, problem: str) -> None:
    assert problem in read_fault(content)[1]


def test_a_syntax_error_names_its_line_and_what_is_wrong() -> None:
    line, reason = read_fault("a: 1\nb: c: d\n")
    assert line == 2
    assert reason == "this is not valid YAML: mapping values are not allowed in this context"


def test_a_quote_without_end_names_the_line_in_which_it_begins() -> None:
    _, reason = read_fault("a: 1\nb: 'x\nc: 2\nd: 3\n")
    assert "begins in line 2" in reason


def test_the_error_about_a_tab_as_indentation_says_so() -> None:
    line, reason = read_fault("a:\n\tb: 1\n")
    assert line == 2
    assert reason.endswith("indent with spaces, not with tabs")


def test_tags_of_plain_types_set_the_type_of_a_word() -> None:
    assert parse_documents("a: !!str 5\nb: !!int '5'\nc: ! 7\n") == [
        (1, {"a": "5", "b": 5, "c": "7"})
    ]


# The value to which `kubectl create --dry-run=client -o json` (1.32) parsed each word.
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
def test_a_word_is_parsed_to_the_same_value_as_by_kubectl(word: str, value: object) -> None:
    resolved = parse_word(word)
    assert resolved == value
    assert isinstance(resolved, bool) == isinstance(value, bool)
    assert isinstance(resolved, str) == isinstance(value, str)


@pytest.mark.parametrize("word", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
def test_numbers_that_json_does_not_have_are_an_error(word: str) -> None:
    with pytest.raises(Malformed, match="JSON"):
        parse_word(word)


def test_a_number_of_5000_digits_is_parsed_as_a_string() -> None:
    assert parse_word("9" * 5000) == "9" * 5000
