"""Label and field selectors say what they match, and refuse what they cannot read."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.server.failures import StatusError
from envtest.server.selectors import parse_field_selector, parse_label_selector

GOLD = {"tier": "gold", "size": "7"}


@pytest.mark.parametrize(
    ("content", "matches"),
    [
        ("", True),
        ("tier=gold", True),
        ("tier==gold,size", True),
        ("tier!=gold", False),
        ("tier in (gold, silver)", True),
        ("tier notin (silver)", True),
        ("other notin (silver)", True),
        ("!other", True),
        ("!tier", False),
        ("other", False),
        ("other!=x", True),
        ("size>6", True),
        ("size<6", False),
        ("tier>6", False),
        ("tier in (gold),other", False),
        ("empty=", False),
        ("tier in ()", False),
        ("other notin ()", True),
        ("tier in (,gold)", True),
    ],
)
def test_a_label_selector_matches_as_kubernetes_has_it(content: str, matches: bool) -> None:
    assert parse_label_selector(content).matches(GOLD) is matches


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("tier===", 'unable to parse requirement: "tier===" is no term of a label selector'),
        ("a b", 'unable to parse requirement: "a b" is no term of a label selector'),
        ("a in b", 'unable to parse requirement: "a in b" is no term of a label selector'),
        ("a,=", 'unable to parse requirement: "=" is no term of a label selector'),
        ("!a=b", 'unable to parse requirement: "!a=b" is no term of a label selector'),
        ("a in (b", 'unable to parse requirement: "a in (b" is no term of a label selector'),
        (
            r"\.",
            (
                r'unable to parse requirement: <nil>: Invalid value: "\\.": name part must '
                "consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
                "an "
                "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used "
                "for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
        ),
        (
            "a in (-,_)",
            "unable to parse requirement: ["
            + ", ".join(
                f'values[{at}][a]: Invalid value: "{value}": a valid label must be an empty '
                "string or consist of alphanumeric characters, '-', '_' or '.', and must start "
                "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
                "'12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                for at, value in enumerate("-_")
            )
            + "]",
        ),
        (
            "a>x",
            (
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' "
                "operators, the value must be an integer"
            ),
        ),
    ],
)
def test_a_label_selector_that_is_none_is_refused(content: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_label_selector(content)
    assert (refused.value.code, str(refused.value)) == (400, message)


@given(st.text(alphabet="ab=!,() <>in", max_size=20))
def test_any_text_is_a_label_selector_or_refused(content: str) -> None:
    with suppress(StatusError):
        assert parse_label_selector(content).matches(GOLD) in {True, False}


def test_a_field_selector_compares_texts() -> None:
    selector = parse_field_selector(r"metadata.name=a,spec.x!=b\,c,spec.y==")
    values = {"metadata.name": "a", "spec.x": "b"}

    assert selector.matches(lambda field: values.get(field, ""))
    assert not selector.matches(lambda field: {**values, "spec.x": "b,c"}.get(field, ""))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("zz", "invalid selector: 'zz'; can't understand 'zz'"),
        ("zz,a", "invalid selector: 'zz,a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
    ],
)
def test_a_field_selector_that_is_none_is_refused(content: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_field_selector(content)
    assert (refused.value.code, str(refused.value)) == (400, message)


def test_a_term_of_nothing_is_no_term_of_a_field_selector() -> None:
    assert not parse_field_selector("=,,!=,==")
