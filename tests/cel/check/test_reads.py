import pytest

from fleethook.cel.check.reads import list_reads


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
