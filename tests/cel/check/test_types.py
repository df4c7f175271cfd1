import pytest

from fleethook.cel.check.types import (
    BOOL,
    DYN,
    FIELDS,
    IDENTS,
    INT,
    NULL,
    STRING,
    TYPES,
    Substitutions,
    Type,
    describe_type,
    format_type,
    get_most_general,
    instantiate,
    list_parameters,
    make_list,
    make_map,
    make_optional,
    make_type,
    parse_type,
    parse_types,
    read_functions,
    unwrap_optional,
)
from fleethook.cel.evaluation import VARIABLES

A, B = Type("param", "A"), Type("param", "B")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", INT),
        ("list(A)", make_list(A)),
        ("map(string, list(optional_type(A)))", make_map(STRING, make_list(make_optional(A)))),
        ("net.IP", Type("opaque", "net.IP")),
        ("type(A)", make_type(A)),
    ],
)
def test_declared_types_are_read_and_written(text: str, expected: Type) -> None:
    assert parse_type(text) == expected
    assert format_type(expected) == describe_type(expected) == text
    assert parse_types(f"{text}, int") == (expected, INT)


@pytest.mark.parametrize(
    ("one", "shown", "described"),
    [
        (NULL, "null", "null_type"),
        (parse_type("google.protobuf.Duration"), "duration", "google.protobuf.Duration"),
    ],
)
def test_some_types_have_a_short_name_in_errors(one: Type, shown: str, described: str) -> None:
    assert (format_type(one), describe_type(one)) == (shown, described)


@pytest.mark.parametrize(
    ("types", "others", "expected"),
    [
        ((INT,), (INT,), True),
        ((INT,), (STRING,), False),
        ((DYN,), (INT,), True),
        ((INT, make_list(INT)), (A, make_list(A)), True),
        ((STRING, make_list(INT)), (A, make_list(A)), False),
        ((STRING, make_list(DYN)), (A, make_list(A)), True),
        ((NULL,), (make_optional(INT),), True),
        ((NULL,), (INT,), False),
        ((make_map(STRING, INT),), (make_map(A, B),), True),
        ((make_type(INT),), (make_type(STRING),), True),
        ((INT, INT), (INT,), False),
    ],
)
def test_types_are_assignable_if_parameters_can_stand_for_one_type(
    types: tuple[Type, ...], others: tuple[Type, ...], *, expected: bool
) -> None:
    assert Substitutions().assign_all(types, others) is expected


def test_a_failed_assignment_leaves_no_trace() -> None:
    known = Substitutions()
    assert not known.assign_all((INT, STRING), (A, BOOL))
    assert known.substitute(A) == A
    assert known.substitute(A, dynamic=True) == DYN
    assert known.assign(STRING, A)
    assert known.substitute(make_list(A)) == make_list(STRING)


def test_a_parameter_is_never_part_of_itself() -> None:
    assert not Substitutions().assign(make_list(A), A)


def test_parameters_of_a_declaration_are_replaced() -> None:
    types = (make_map(A, make_list(B)), INT)
    assert list(list_parameters(types)) == [A, B]
    assert instantiate(types, {A: INT, B: STRING}) == (make_map(INT, make_list(STRING)), INT)


def test_the_more_general_type_has_dynamic_parts() -> None:
    assert get_most_general(make_list(INT), make_list(DYN)) == make_list(DYN)
    assert get_most_general(make_list(DYN), make_list(INT)) == make_list(DYN)
    assert unwrap_optional(make_optional(INT)) == (INT, True)
    assert unwrap_optional(INT) == (INT, False)


def test_overloads_have_receivers_and_type_parameters() -> None:
    (function, member) = read_functions()["matches"]
    assert (function.name, function.member, member.name, member.member) == ("matches", False, "matches_string", True)
    (contains,) = read_functions()["sets.contains"]
    assert contains.parameters == (parse_type("T"),)
    assert contains.arguments == (make_list(parse_type("T")),) * 2
    assert read_functions()["optional.none"][0].arguments == ()


def test_each_variable_and_type_has_a_name() -> None:
    assert set(VARIABLES) <= IDENTS.keys()
    assert IDENTS["string"] == parse_type("type(string)")
    assert FIELDS["kubernetes.NamespaceMetadata"]["UID"] == STRING
    assert set(FIELDS) <= TYPES.keys() <= IDENTS.keys()
