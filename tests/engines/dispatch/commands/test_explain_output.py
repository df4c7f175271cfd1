import json

import msgspec

from fleethook.engines.dispatch.explain import Explanation
from tests.cli.conftest import WriteYAML
from tests.cli.explaining import EXAMPLE, explain, explain_as_json, provide_webhooks
from tests.engines.dispatch.builders import in_cluster, namespace, webhook, widget


def test_text_shows_the_owner_then_the_webhooks_then_shadowed_webhooks() -> None:
    code, out, err = explain(*EXAMPLE, "--operation", "CREATE", "--cluster", "ws3")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "CREATE of widgets.example.org, Widget default/b, in ws3",
        "owner: ws1 (bound)",
        "  APIBinding widgets of ws3 (Bound) lists widgets.example.org",
        "  it binds APIExport widgets of ws1 (root:ws1), which owns the schema",
        "mutating:",
        "  call   widgets/label.widgets.example.org/0  all filters match",
        "validating:",
        "  call   widgets/size.widgets.example.org/0  all filters match",
        "  skip   widgets/scale.widgets.example.org/0  rules: no rule matches CREATE of example.org/v1 widgets in namespace default",
        "         nearest miss: rules[0] would match if 'CREATE' were in operations ['UPDATE'], but then matchConditions would fail",
        "shadowed, because the schema is not the cluster's own:",
        "  validating: my-own-rules/mine.widgets.example.org/0",
    ]


def test_phase_limits_the_output_to_one_phase() -> None:
    _, out, _ = explain(*EXAMPLE, "--cluster", "ws3", "--phase", "mutating")
    assert "validating" not in out
    assert "label.widgets.example.org" in out
    found = explain_as_json(*EXAMPLE, "--cluster", "ws3", "--phase", "validating")
    assert (found["mutating"], len(found["validating"]), len(found["shadowed"])) == ([], 2, 1)


def test_verbose_shows_the_checks_of_called_webhooks() -> None:
    quiet, verbose = (explain(*EXAMPLE, "--cluster", "ws2", *flags)[1] for flags in ((), ("--verbose",)))
    assert "objectSelector" not in quiet
    assert verbose.count("yes objectSelector: it selects everything") == 3


def test_json_equals_the_answer_of_the_server(write_yaml: WriteYAML) -> None:
    code, out, _ = explain(*EXAMPLE, "--cluster", "ws3", "--output", "json")
    found = msgspec.json.decode(out, type=Explanation)
    assert code == 0
    assert found.owner.cluster == "ws1"
    assert [(one.uid, one.decision) for one in found.validating] == [
        ("widgets/size.widgets.example.org/0", "call"),
        ("widgets/scale.widgets.example.org/0", "skip"),
    ]


def test_json_has_one_document_for_each_object(write_yaml: WriteYAML) -> None:
    both = write_yaml("two.yaml", widget("one"), widget("two"))
    _, out, _ = explain(
        "--request", both, "--cluster", "c", "-f", write_yaml("m/m.yaml", *provide_webhooks()), "-o", "json"
    )
    first, end = json.JSONDecoder().raw_decode(out)
    assert first["resource"] == json.loads(out[end:])["resource"] == "widgets.example.org"


def test_all_prints_a_table_of_the_objects_without_configuration(write_yaml: WriteYAML) -> None:
    object_ = in_cluster("c", "example.org/v1", "Widget", "b")
    code, out, err = explain(
        "--all", "-f", write_yaml("m/m.yaml", *provide_webhooks(webhook()), object_, namespace("c"))
    )
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "CLUSTER  OBJECT             OWNER  WEBHOOKS",
        "c        Widget b           p      hooks/w.example.org/0",
        "c        Namespace default  c      -",
    ]
