import pytest

from app.dispatch.cel.functions import Function, OverloadResolver, build_resolvers, declare_functions
from app.dispatch.cel.values import NONE, GrowingList, Optional, Uint

SIZE = Function("size", ("string",), "int", len, member=False)
TOTAL = Function("total", ("list<int>", "int"), "int", sum)
FIRST = Function("first", ("list<dyn>",), "optional_type<dyn>", lambda values: values[:1])


def test_a_declaration_has_identifier_signature_and_result() -> None:
    named = Function("format.named", ("string",), "dyn", str, member=False)

    assert declare_functions([SIZE, TOTAL, named]) == (
        "functions:\n"
        '- name: "size"\n  overloads:\n'
        "  - id: 'kubernetes.size:function:string'\n    signature: 'size(string)'\n    return: 'int'\n"
        '- name: "total"\n  overloads:\n'
        "  - id: 'kubernetes.total:member:list<int>:int'\n    signature: 'list<int>.total(int)'\n    return: 'int'\n"
        '- name: "format.named"\n  overloads:\n'
        "  - id: 'kubernetes.format.named:function:string'\n    signature: 'format\\.named(string)'\n    return: 'dyn'\n"
    )


def test_a_resolver_selects_the_overload_by_the_types_of_the_arguments() -> None:
    resolver = OverloadResolver([
        Function("kind", ("int",), "string", lambda _: "int"),
        Function("kind", ("uint",), "string", lambda _: "uint"),
        Function("kind", ("list<string>",), "string", lambda _: "list"),
        Function("kind", ("dyn",), "string", lambda _: "any"),
        Function("kind", ("int", "int"), "string", lambda _one, _other: "two"),
    ])  # fmt: skip

    assert [resolver(value) for value in (1, Uint(1), [], GrowingList(), "a")] == ["int", "uint", "list", "list", "any"]
    assert resolver(1, 2) == "two"
    with pytest.raises(TypeError, match="no such overload"):
        resolver(1, "a")


def test_an_empty_result_of_a_function_with_an_optional_is_none() -> None:
    resolver = build_resolvers([FIRST])["first"]
    found = resolver([7])

    assert isinstance(found, Optional)
    assert found.value == [7]
    assert resolver([]) is NONE
