import pytest

from fleethook.cel.check.null_reads import list_reads, read_null


@pytest.mark.parametrize(
    ("expression", "operation", "outcome"),
    [
        ("object.spec.size > 1", "DELETE", "always"),
        ("object.spec.size > 1", "CREATE", ""),
        ("object.spec.size >= oldObject.spec.size", "CREATE", "always"),
        ("object['spec'].size > 1", "DELETE", "always"),
        ("dyn(object).spec == 1", "DELETE", "always"),
        ("object.spec.list.all(one, one > 1)", "DELETE", "always"),
        ("!has(object.metadata.labels)", "DELETE", "always"),
        ("!('a' in object.metadata.labels)", "DELETE", "always"),
        ("[1].all(one, oldObject.spec.size > one)", "CREATE", "possible"),
        ("request.name == 'a' && object.spec.size > 1", "DELETE", "possible"),
        ("request.name == 'a' || object.spec.size > 1", "DELETE", "possible"),
        ("(request.name == 'a' ? object : oldObject).spec == 1", "DELETE", "possible"),
        ("request.operation == 'DELETE' || object.spec.size > 1", "DELETE", ""),
        ("!(request.operation in ['DELETE']) && object.spec.size > 1", "DELETE", "false"),
        ("request.operation != 'CREATE' && oldObject.a == 1", "CREATE", "false"),
        ("object == null || object.spec.size > 1", "DELETE", ""),
        ("object != null ? object.spec == 1 : oldObject.spec == 1", "DELETE", ""),
        ("[object, oldObject].filter(o, o != null).all(o, o.spec == 1)", "DELETE", ""),
        ("[{'a': 1}].all(object, object.a == 1)", "DELETE", ""),
        ("{'a': object.spec} == {}", "DELETE", "possible"),
        ("object.?spec.hasValue()", "DELETE", ""),
        ("size(object.spec) > 1", "DELETE", "always"),
        ("size(object) > 1", "DELETE", "always"),
        ("'metadata' in object", "DELETE", "always"),
        ("object in [null]", "DELETE", ""),
        ("type(object) == null_type", "DELETE", ""),
        ("optional.of(object).hasValue()", "DELETE", ""),
        ("oldObject.spec == 1", "CONNECT", "always"),
        ("this is no CEL", "DELETE", ""),
        ("(" * 200 + "object.a == 1" + ")" * 200, "DELETE", "always"),
    ],
)  # fmt: skip
def test_a_member_of_a_null_is_an_error_unless_a_guard_decides(expression: str, operation: str, outcome: str) -> None:
    assert read_null(expression, operation) == outcome


def test_further_variables_can_be_null() -> None:
    assert read_null("namespaceObject.metadata.name == 'a'", "UPDATE") == ""
    assert read_null("namespaceObject.metadata.name == 'a'", "UPDATE", nulls=("namespaceObject",)) == "always"


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("object.spec.size > 1", {("object.spec.size", False)}),
        ("has(object.spec.size)", {("object.spec.size", True)}),
        ("object.?spec.?size.orValue(1) > 1", {("object.spec.size", True)}),
        ("object['spec'].list[0] == 1", {("object.spec.list.*", False)}),
        ("object.spec.list.all(c, c.color == 'a')", {("object.spec.list", False), ("object.spec.list.*.color", False)}),
        ("this is no CEL", set()),
    ],
)
def test_the_members_that_an_expression_reads_are_listed(expression: str, reads: set[tuple[str, bool]]) -> None:
    found = {(".".join(path), tested) for path, tested in list_reads(expression) if path[0] == "object"}
    assert found == reads
