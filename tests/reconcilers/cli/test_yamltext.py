"""YAML documents become values that know their lines; what is none says where."""

import pytest

from reconcilers.cli.reading.yamltext import Malformed, line_of, parse, pieces


def documents(text: str) -> list[tuple[int, object]]:
    return [one for before, piece in pieces(text) for one in parse(piece, before)]


def fault(text: str) -> tuple[int, str]:
    with pytest.raises(Malformed) as caught:
        documents(text)
    return caught.value.line, caught.value.reason


def test_every_value_knows_its_line() -> None:
    [(first, value)] = documents("# a comment\n\na:\n  b:\n  - c: 1\n    d: 2\n")
    assert first == 3
    assert line_of(value, ("a",)) == 3
    assert line_of(value, ("a", "b", 0, "d")) == 6


def test_a_path_that_is_not_there_has_the_line_of_what_encloses_it() -> None:
    [(_, value)] = documents("a:\n  b: 1\n")
    assert line_of(value, ("a", "missing", "deeper")) == 1
    assert line_of(value, ("missing",)) == 1


def test_lines_are_counted_through_all_documents_of_a_file() -> None:
    text = "---\n# only a comment\n---\nx: 1\n...\n---\nz: 2\n--- {w: 3}\n"
    assert documents(text) == [(4, {"x": 1}), (7, {"z": 2}), (8, {"w": 3})]


def test_a_separator_inside_a_text_separates_nothing() -> None:
    [(_, value)] = documents("a: |\n  ---\n  b\nc: '--- d'\n")
    assert value == {"a": "---\nb\n", "c": "--- d"}


def test_directives_before_the_first_document_are_no_document() -> None:
    assert documents("%YAML 1.2\n---\na: 1\n") == [(3, {"a": 1})]


def test_a_key_that_is_there_twice_is_refused_with_both_lines() -> None:
    line, reason = fault("a: 1\nb: 2\na: 3\n")
    assert line == 3
    assert "'a' is here twice, first in line 1" in reason


def test_merge_keys_fill_in_what_is_not_there() -> None:
    [(_, value)] = documents("base: &b {x: 1, w: 2}\nuse:\n  <<: *b\n  x: 3\n")
    assert value == {"base": {"x": 1, "w": 2}, "use": {"x": 3, "w": 2}}


def test_merging_anything_but_mappings_is_refused() -> None:
    assert fault("a:\n  <<: [1]\n") == (2, "<< can only merge mappings")


def test_an_alias_stands_for_what_its_anchor_holds() -> None:
    [(_, value)] = documents("a: &x [1, 2]\nb: *x\n")
    assert value == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize("text", ["a: *nothing\n", "a: &a\n  b: *a\n"])
def test_an_alias_to_nothing_or_to_itself_is_refused(text: str) -> None:
    assert "refers to itself or to nothing before it" in fault(text)[1]


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "aliases stand for more than" in fault("\n".join(lines))[1]


@pytest.mark.parametrize("opening", ["[", "- ", "? ", "{a: "])
def test_nesting_without_end_is_stopped_and_not_the_process(opening: str) -> None:
    assert "nested more than 200 levels deep" in fault(opening * 50_000 + "a")[1]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: !!python/object:os.system x\n", "tag"),
        ("a: !!set {b}\n", "tag"),
        ("a: !secret b\n", "tag"),
        ("a: !!int many\n", "'many' is no int"),
        ("? [1, 2]\n: b\n", "a key has to be a word or a number"),
        ("a: .inf\n", "JSON"),
        ("a: \x07\n", "control character"),
    ],
)
def test_what_means_nothing_to_kubernetes_is_refused(text: str, what: str) -> None:
    assert what in fault(text)[1]


def test_a_syntax_error_names_its_line_and_what_is_wrong() -> None:
    line, reason = fault("a: 1\nb: c: d\n")
    assert line == 2
    assert reason == "this is no valid YAML: mapping values are not allowed in this context"


def test_a_quote_without_end_names_the_line_in_which_it_begins() -> None:
    _, reason = fault("a: 1\nb: 'x\nc: 2\nd: 3\n")
    assert "begins in line 2" in reason


def test_a_tab_as_indentation_is_named() -> None:
    line, reason = fault("a:\n\tb: 1\n")
    assert line == 2
    assert reason.endswith("indent with spaces, not with tabs")


def test_tags_of_plain_types_say_what_a_word_is() -> None:
    assert documents("a: !!str 5\nb: !!int '5'\nc: ! 7\n") == [(1, {"a": "5", "b": 5, "c": "7"})]
