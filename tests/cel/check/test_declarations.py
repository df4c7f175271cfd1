from fleethook.cel.check.declarations import FIELDS, IDENTS, TYPES, read_functions
from fleethook.cel.check.types import STRING, make_list, parse_type
from fleethook.cel.evaluation import VARIABLES


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
