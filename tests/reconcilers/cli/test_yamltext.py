"""YAML documents become values that know their lines; what is none says where."""

import pytest

from reconcilers.cli.reading.yamltext import (
    Malformed,
    cut_at_separators,
    find_line,
    parse_word,
    parse_yaml,
)


def parse_documents(content: str) -> list[tuple[int, object]]:
    return [
        document
        for before, piece in cut_at_separators(content)
        for document in parse_yaml(piece, before)
    ]


def read_fault(content: str) -> tuple[int, str]:
    with pytest.raises(Malformed) as caught:
        parse_documents(content)
    return caught.value.line, caught.value.reason


def test_every_value_carries_its_line() -> None:
    [(first, value)] = parse_documents("# a comment\n\na:\n  b:\n  - c: 1\n    d: 2\n")
    assert first == 3
    assert find_line(value, ("a",)) == 3
    assert find_line(value, ("a", "b", 0, "d")) == 6


def test_a_path_that_is_not_there_has_the_line_of_what_encloses_it() -> None:
    [(_, value)] = parse_documents("a:\n  b: 1\n")
    assert find_line(value, ("a", "missing", "deeper")) == 1
    assert find_line(value, ("missing",)) == 1


def test_lines_are_counted_through_all_documents_of_a_file() -> None:
    stream = "---\n# only a comment\n---\nx: 1\n...\n---\nz: 2\n--- {w: 3}\n"
    assert parse_documents(stream) == [(4, {"x": 1}), (7, {"z": 2}), (8, {"w": 3})]


def test_a_separator_inside_a_text_separates_nothing() -> None:
    [(_, value)] = parse_documents("a: |\n  ---\n  b\nc: '--- d'\n")
    assert value == {"a": "---\nb\n", "c": "--- d"}


def test_directives_before_the_first_document_are_no_document() -> None:
    assert parse_documents("%YAML 1.2\n---\na: 1\n") == [(3, {"a": 1})]


def test_a_key_that_is_there_twice_is_refused_with_both_lines() -> None:
    line, reason = read_fault("a: 1\nb: 2\na: 3\n")
    assert line == 3
    assert "'a' appears twice, first in line 1" in reason


def test_merge_keys_fill_in_what_is_not_there() -> None:
    [(_, value)] = parse_documents("base: &b {x: 1, w: 2}\nuse:\n  <<: *b\n  x: 3\n")
    assert value == {"base": {"x": 1, "w": 2}, "use": {"x": 3, "w": 2}}


def test_merging_anything_but_mappings_is_refused() -> None:
    assert read_fault("a:\n  <<: [1]\n") == (2, "<< can only merge mappings")


def test_an_alias_stands_for_what_its_anchor_holds() -> None:
    [(_, value)] = parse_documents("a: &x [1, 2]\nb: *x\n")
    assert value == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize("content", ["a: *nothing\n", "a: &a\n  b: *a\n"])
def test_an_alias_to_nothing_or_to_itself_is_refused(content: str) -> None:
    assert "refers to itself or to nothing before it" in read_fault(content)[1]


def test_an_anchor_that_is_given_anew_stands_for_the_later_value() -> None:
    assert parse_documents("a: &x 1\nb: &x 2\nc: *x\n") == [(1, {"a": 1, "b": 2, "c": 2})]


def test_an_alias_has_the_line_it_is_in_and_what_it_stands_for_its_own() -> None:
    [(_, value)] = parse_documents("a: &x {b: 1}\nc:\n- *x\n")
    assert find_line(value, ("c", 0)) == 3
    assert find_line(value, ("c", 0, "b")) == 1


def test_aliases_that_nest_ever_deeper_are_stopped() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 400))]
    assert "nested more than 200 levels deep" in read_fault("\n".join(lines))[1]


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "aliases stand for more than" in read_fault("\n".join(lines))[1]


@pytest.mark.parametrize("opening", ["[", "- ", "? ", "{a: "])
def test_nesting_without_end_is_stopped_and_not_the_process(opening: str) -> None:
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
def test_what_means_nothing_to_kubernetes_is_refused(content: str, problem: str) -> None:
    assert problem in read_fault(content)[1]


def test_a_syntax_error_names_its_line_and_what_is_wrong() -> None:
    line, reason = read_fault("a: 1\nb: c: d\n")
    assert line == 2
    assert reason == "this is not valid YAML: mapping values are not allowed in this context"


def test_a_quote_without_end_names_the_line_in_which_it_begins() -> None:
    _, reason = read_fault("a: 1\nb: 'x\nc: 2\nd: 3\n")
    assert "begins in line 2" in reason


def test_a_tab_as_indentation_is_named() -> None:
    line, reason = read_fault("a:\n\tb: 1\n")
    assert line == 2
    assert reason.endswith("indent with spaces, not with tabs")


def test_tags_of_plain_types_say_what_a_word_is() -> None:
    assert parse_documents("a: !!str 5\nb: !!int '5'\nc: ! 7\n") == [
        (1, {"a": "5", "b": 5, "c": "7"})
    ]


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
    resolved = parse_word(word)
    assert resolved == value
    assert isinstance(resolved, bool) == isinstance(value, bool)
    assert isinstance(resolved, str) == isinstance(value, str)


@pytest.mark.parametrize("word", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
def test_what_json_cannot_carry_is_refused_and_named(word: str) -> None:
    with pytest.raises(Malformed, match="JSON"):
        parse_word(word)


def test_a_number_of_absurd_length_is_a_text() -> None:
    assert parse_word("9" * 5000) == "9" * 5000
