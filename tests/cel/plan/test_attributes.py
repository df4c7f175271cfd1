import pytest

from fleethook.cel import EvaluationError, compile_condition
from fleethook.cel.evaluation import ABSENT, COST, FIRST_VARIABLE, VARIABLES, Frame
from fleethook.cel.plan.attributes import (
    Attribute,
    Choice,
    Constant,
    Member,
    append_member,
    as_attribute,
    build_member,
    compile_part,
    compile_variable,
)
from tests.cel.evaluating import bind, evaluate


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.hosts[1] == 'b' && object.spec.hosts[1.0] == 'b' && object.spec.hosts[1u] == 'b'",
        "object['spec'].hosts[object.spec.replicas - 2] == 'b'",
        "has(object.spec.nothing) && !has(object.spec.absent)",
        "object.?spec.?absent.orValue(1) == 1 && object.?spec.replicas.orValue(1) == 3",
        "object.spec.hosts[?5].orValue('c') == 'c' && object.spec.hosts[?0].value() == 'a'",
        "optional.of(object).spec.replicas.value() == 3 && !optional.none().spec.hasValue()",
        "(object.spec.replicas > 2 ? object.spec : object.metadata).replicas == 3",
    ],
)
def test_members_of_objects_lists_and_optionals(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("object.spec.absent.member == 1", "no such key: absent"),
        ("object.spec.replicas.member == 1", "no such key: member"),
        ("object.spec.hosts[-1] == ''", "index out of bounds: -1"),
        ("object.spec.hosts['a'] == ''", "unsupported index type 'string' in list"),
        ("object.spec.hosts[0.5] == ''", "unsupported index type 'double' in list"),
        ("object.spec[object.spec.hosts] == ''", "unsupported key type: list"),
        ("object.spec[object.absent] == ''", "no such key: absent"),
    ],
)
def test_a_missing_member_is_an_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        # 1 for the variable and 1 for each member.
        ("object.enabled", 2),
        ("object.a.b.c", 4),
        ("object.a['b'].c", 4),
        # has() itself is free; its operand costs 1 for each member.
        ("has(object.a.b)", 2),
        # The branches of a conditional cost their members only.
        ("object.enabled ? object.a.b.c : false", 2 + 3),
    ],
)
def test_the_cost_of_an_attribute_counts_its_members(expression: str, cost: int) -> None:
    document = {"enabled": True, "a": {"b": {"c": True}}}

    assert compile_condition(f"({expression}) == true").measure(bind(document)).cost == cost + 1


OBJECT = Attribute(compile_variable(FIRST_VARIABLE, "object"))


def frame(value: object) -> Frame:
    return [0, 100, value, *([ABSENT] * (len(VARIABLES) - 1))]


def test_a_constant_is_free() -> None:
    state = frame(None)

    assert compile_part(Constant(7))(state) == 7
    assert state[COST] == 0


def test_a_member_of_a_conditional_is_selected_in_both_branches() -> None:
    for decision, expected in ((True, "yes"), (False, "no")):
        branches = as_attribute(Constant({"a": "yes"})), as_attribute(Constant({"a": "no"}))
        choice = append_member(Choice(lambda _, value=decision: value, *branches), Member("a"))  # type: ignore[misc]
        state = frame(None)

        assert compile_part(choice)(state) == expected
        assert state[COST] == 1


def test_an_attribute_charges_for_itself_and_its_members() -> None:
    state = frame({"a": 7})

    assert compile_part(append_member(OBJECT, build_member(Constant("a"), optional=False)))(state) == 7
    assert state[COST] == 2


def test_a_computed_key_is_code() -> None:
    member = build_member(OBJECT, optional=True)

    assert member.key is None
    assert member.optional
    assert member.computed is not None
    assert member.computed(frame("a")) == "a"
