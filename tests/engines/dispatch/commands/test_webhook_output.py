import json
from typing import Any

import msgspec
import pytest

from fleethook.engines.dispatch.commands.trial import Trial
from fleethook.engines.dispatch.commands.webhook_output import MAX_SHOWN, Output, TriedWebhook, print_results
from fleethook.engines.dispatch.review.request_plan import InputDocument, PlannedRequest
from tests.engines.dispatch.builders import request_of, review, widget


def tried(name: str, outcome: Any, cluster: str = "", **members: Any) -> TriedWebhook:
    request = request_of(review(widget(name)))
    planned = PlannedRequest(request, cluster, InputDocument(widget(name), "f:1", cluster))
    return TriedWebhook(planned, Trial("mutating", "c", "w", outcome, **members))


def test_long_values_are_cut_and_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"text": "x" * 200}
    operations = ({"op": "add", "path": "/spec/a", "value": value}, {"op": "copy", "from": "/a", "path": "/b"})
    print_results(
        [tried("a", "changed", patch=operations), tried("b", "refused", "ws", message="no\x1b[31m"),
         tried("c", "allowed", warnings=("old\n",)), tried("d", "allowed", warnings=("old\n",))],
        Output.TEXT, verbose=False,
    )  # fmt: skip
    cut = f"{json.dumps(value)[:80]}…"
    assert capsys.readouterr().out.splitlines() == [
        "changed  CREATE Widget default/a, c/w", f"         add /spec/a: {cut}", "         copy /b from /a",
        "refused  CREATE Widget default/b in ws, c/w", "         no\\x1b[31m",
        "warning  c/w: old\\n (reviews: 2)", "c/w: 2 allowed, 1 changed, 1 refused",
    ]  # fmt: skip


def test_many_outcomes_of_a_kind_are_counted_unless_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    many = [tried(str(number), "refused", message="no") for number in range(MAX_SHOWN + 2)]
    print_results(many, Output.TEXT, verbose=False)
    out = capsys.readouterr().out
    assert (out.count("refused  CREATE"), "c/w: 2 more refused (--verbose prints them)" in out) == (MAX_SHOWN, True)
    print_results([*many, tried("last", "allowed")], Output.TEXT, verbose=True)
    out = capsys.readouterr().out
    assert (out.count("refused  CREATE"), "allowed  CREATE Widget default/last, c/w" in out) == (MAX_SHOWN + 2, True)


@pytest.mark.parametrize("output", Output)
def test_webhooks_of_both_phases_with_one_name_are_told_apart(
    capsys: pytest.CaptureFixture[str], output: Output
) -> None:
    one = tried("a", "allowed")
    other = one._replace(trial=msgspec.structs.replace(one.trial, phase="validating"))
    print_results([one, other], output, verbose=False)
    out = capsys.readouterr().out
    assert ("c (mutating)/w" in out, "c (validating)/w" in out) == (True, True)


def test_a_request_that_is_refused_before_any_webhook_has_no_webhook(capsys: pytest.CaptureFixture[str]) -> None:
    unclear = tried("a", "failed", message="no owner")
    unclear = unclear._replace(trial=msgspec.structs.replace(unclear.trial, configuration="", webhook=""))
    print_results([unclear], Output.TEXT, verbose=False)
    assert capsys.readouterr().out.splitlines()[-1] == "requests: 1 failed"
