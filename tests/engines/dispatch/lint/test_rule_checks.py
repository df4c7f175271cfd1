"""Rules that no request matches are reported, each with its index."""

import copy

from tests.engines.dispatch.builders import WIDGETS, binding, export, logical_cluster, webhook
from tests.engines.dispatch.lint.builders import WIDGET, find_issues, list_codes, rule, schema, validating


def test_bound_resources_are_served_with_and_without_a_known_schema() -> None:
    bound = binding("c", "p", "widgets.example.org")
    nameless = copy.deepcopy(bound)
    del nameless["status"]["boundResources"][0]["schema"]
    for one in (bound, nameless):
        assert list_codes(one, export("p", "widgets.example.org"), validating(webhook())) == ["shadowed"]


def test_a_consumer_without_the_objects_of_the_provider_has_shadowed_webhooks() -> None:
    claims_only = binding("c", "g", name="guard")
    seen = [binding("c", "p", "widgets.example.org"), claims_only, logical_cluster("c")]
    ((code, _, text),) = find_issues(*seen, validating(webhook()))
    assert (code, "binds widgets.example.org of its provider, whose webhooks are called instead" in text) == (
        "shadowed",
        True,
    )


def test_the_bound_schema_decides_about_served_versions() -> None:
    documents = [
        binding("c", "p", "widgets.example.org"),
        export("p", "widgets.example.org"),
        schema("p", "widgets.example.org"),
    ]
    assert list_codes(*documents, validating(rule(apiVersions=["v2"]))) == ["unserved-resource", "shadowed"]


def test_each_rule_is_reported_with_its_index() -> None:
    unserved = {**WIDGETS, "resources": ["gadgets"]}
    issues = find_issues(WIDGET, validating(webhook(rules=[WIDGETS, unserved, unserved])))
    assert [text.partition(":")[0] for _, _, text in issues] == ["rules[1]", "rules[2]"]
