"""APIBindings without a known owner are reported once."""

from tests.dispatch.builders import binding, export
from tests.dispatch.lint.builders import find_issues


def test_ambiguous_resources_are_reported_once_for_all_bindings() -> None:
    bindings = [
        binding("c", owner, "gadgets.example.org", "widgets.example.org", name=owner) for owner in ("p", "q", "r")
    ]
    issues = [text for code, _, text in find_issues(*bindings) if code == "binding-ambiguous"]
    assert [text.partition(":")[0] for text in issues] == [
        "several APIBindings of c list gadgets.example.org",
        "several APIBindings of c list widgets.example.org",
    ]


def test_bindings_are_linted_in_their_own_cluster() -> None:
    bound = binding("c", "p", "widgets.example.org")
    assert find_issues(bound, export("p", "widgets.example.org"), binding("d", "c", "widgets.example.org"))[0][0] == (
        "binding-dangling"
    )
