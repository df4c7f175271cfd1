from fleethook.cel.plan.attributes import Attribute, Member, compile_variable
from fleethook.cel.plan.frame import ABSENT, COST, FIRST_VARIABLE, VARIABLES, Frame
from fleethook.cel.plan.parts import Choice, Constant, append_member, as_attribute, build_member, compile_part

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
