import json
from collections.abc import Sequence
from typing import Any

import pytest

from fleethook.cli.options import InputOptions, Output
from fleethook.cli.trial_report import MAX_SHOWN, Trial, TrialReport, remove_stored


def trial(name: str, outcome: Any, **members: Any) -> Trial:
    named = {"kind": "Widget", "namespace": "default", "name": name}
    return Trial("c/w", f"Widget default/{name}", named, outcome, **members)


def report(trials: Sequence[Trial], output: Output = Output.TEXT, **options: bool) -> int:
    made = TrialReport("fleethook x", output, InputOptions(**options), noun="rule")
    for one in trials:
        made.add(one)
    try:
        made.finish()
    except SystemExit as end:
        return int(str(end.code))
    return 0


def test_long_values_are_cut_and_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    before, value = {"spec": {"b": 1, "c": [1]}}, {"text": "x" * 200}
    changed = trial("a", "changed", patch=({"op": "x"},), before=before, after={"spec": {"a": value, "b": 2}})
    trials = [
        changed, trial("b", "refused", message="no\x1b[31m", place="f.yaml:3"),
        trial("c", "allowed", warnings=("old\n",)), trial("d", "allowed", warnings=("old\n",)),
    ]  # fmt: skip
    assert report(trials) == 1
    assert capsys.readouterr().out.splitlines() == [
        "changed  Widget default/a, c/w",
        "         /spec/b", "           - 1", "           + 2",
        "         /spec/c", "           - [1]",
        "         /spec/a", f"           + {json.dumps(value)[:80]}…",
        "refused  Widget default/b, c/w", "         f.yaml:3: no\\x1b[31m",
        "warning  c/w: old\\n (reviews: 2)", "c/w: 2 allowed, 1 changed, 1 refused",
    ]  # fmt: skip


def test_many_outcomes_of_a_kind_are_counted_unless_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    many = [trial(str(number), "refused", message="no") for number in range(MAX_SHOWN + 2)]
    report(many)
    out = capsys.readouterr().out
    assert (out.count("refused  Widget"), "c/w: 2 more refused (--verbose prints them)" in out) == (MAX_SHOWN, True)
    report([*many, trial("last", "allowed")], verbose=True)
    out = capsys.readouterr().out
    assert (out.count("refused  Widget"), "allowed  Widget default/last, c/w" in out) == (MAX_SHOWN + 2, True)


def test_each_format_has_the_refusals_and_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    refused = trial("a", "refused", message="spec.a: no", field="spec.a", place="f.yaml:3")
    expected = {
        Output.GITHUB: "::error file=f.yaml,line=3,title=refused::Widget default/a, c/w: spec.a: no\n",
        Output.JUNIT: 'message="spec.a: no">spec.a: no\nf.yaml:3</failure>',
        Output.JSON: '"outcome": "refused", "message": "spec.a: no", "field": "spec.a", "place": "f.yaml:3"}\n]',
    }
    for output, text in expected.items():
        assert report([refused, trial("b", "allowed")], output) == 1
        assert text in capsys.readouterr().out
        assert report([trial("b", "allowed")], output) == 0
        if output is Output.JSON:
            assert json.loads(capsys.readouterr().out)["results"] == []
    capsys.readouterr()
    report([])
    assert capsys.readouterr().out == "no object matches a rule\n"


def test_a_warning_fails_with_strict() -> None:
    warned = trial("a", "allowed", warnings=("old",))
    assert (report([warned]), report([warned], strict=True), report([trial("b", "allowed")], strict=True)) == (0, 1, 0)


def test_a_stored_object_is_as_new() -> None:
    stored = {"kind": "Pod", "metadata": {"name": "a", "uid": "u", "deletionTimestamp": "t", "labels": {}}}
    assert remove_stored(stored) == {"kind": "Pod", "metadata": {"name": "a", "labels": {}}}
