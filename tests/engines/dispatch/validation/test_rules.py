"""Resources of rules: wildcards conflict with later resources only."""

import pytest

from fleethook.engines.dispatch.validation.rules import resource_problems


@pytest.mark.parametrize(
    ("resources", "texts"),
    [
        (["pods"], []),
        (["*/*", "pods"], ["if '*/*' is present, must not specify other resources"]),
        (["pods/*", "pods/exec"], ["if 'pods/*' is present, must not specify pods/exec"]),
        (["pods/exec", "pods/*"], []),
        (["*/exec", "pods/exec"], ["if '*/exec' is present, must not specify pods/exec"]),
        (["*", "pods"], ["if '*' is present, must not specify other resources without subresources"]),
        (["pods", "*"], []),
    ],
)
def test_wildcards_conflict_with_later_resources(resources: list[str], texts: list[str]) -> None:
    found = [problem.text.rpartition(": ")[2] for problem in resource_problems(resources, "f")]
    assert found == texts


def test_empty_resources_are_required_values() -> None:
    assert [problem.field for problem in resource_problems([], "f")] == ["f"]
    assert [problem.field for problem in resource_problems(["pods", ""], "f")] == ["f[1]"]
