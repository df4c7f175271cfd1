from fleethook.engines.interpret.playground.question import PlaygroundAnswer, refuse


def test_a_refusal_has_a_reason_and_no_results() -> None:
    assert refuse("limit", "too long", line=3) == PlaygroundAnswer(None, "limit", "too long", 3)
