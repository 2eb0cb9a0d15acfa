"""What the embedded server refuses of CEL that a real one knows, and in which words."""

import pytest

from envtest.schema.cel import CelError, Checker, Program, compile_condition, reads_old_self

NODE = {
    "type": "object",
    "properties": {
        "ref": {"type": "object", "properties": {"namespace": {"type": "string"}}},
        "size": {"type": "string"},
    },
}


@pytest.mark.parametrize(
    ("rule", "reported"),
    [
        (
            "self.ref.namespace == 'x'",
            "CEL reserves the word namespace: write __namespace__",
        ),
        (
            "quantity(self.size).isGreaterThan(quantity('1Gi'))",
            "the embedded server knows the functions of CEL",
        ),
        ("url(self.size).getHost() == ''", "the embedded server knows the functions of CEL"),
    ],
)
def test_a_rule_that_only_a_real_server_takes_is_refused_with_a_reason(
    rule: str, reported: str
) -> None:
    assert reported in Checker(NODE, root=False).find_rule_failure(rule, optional_old=False)


def test_a_condition_that_asks_for_rights_is_refused_with_a_reason() -> None:
    condition = compile_condition("authorizer.path('/x').check('get').allowed()")
    assert condition.program is None
    assert "undeclared reference to 'authorizer'" in condition.failure
    assert "the embedded server knows the functions of CEL" in condition.failure


def test_a_node_whose_schema_has_no_type_can_have_no_rules() -> None:
    assert not Checker({"x-kubernetes-preserve-unknown-fields": True}, root=False).has_type


@pytest.mark.parametrize(
    ("rule", "reads"),
    [
        ("self == oldSelf", True),
        ("oldSelf.hasValue()", True),
        ("self != 'oldSelf'", False),
        ("self.oldSelf == 1", False),
        (r"self != 'it\'s' && oldSelf == 'a'", True),
        ("self.oldSelfish == 1", False),
    ],
)
def test_a_rule_reads_the_old_value_where_it_names_it(rule: str, reads: bool) -> None:
    assert reads_old_self(rule) is reads


def test_an_expression_without_a_value_says_why() -> None:
    with pytest.raises(CelError, match="no such key: a"):
        Program("self.a == 1").evaluate({"self": {}})
    with pytest.raises(CelError, match="divide by zero"):
        Program("1 / self == 1").evaluate({"self": 0})
