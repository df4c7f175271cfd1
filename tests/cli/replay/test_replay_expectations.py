import json

import pytest

from fleethook.cli.replay.replay import ExpectationError, read_expectations

KEY, OTHER = "0123456789abcdef", "fedcba9876543210"


def test_keys_of_a_former_output() -> None:
    output = {"changes": [{"key": KEY, "kinds": ["object"]}, {"key": OTHER}], "summary": {}}
    assert read_expectations(json.dumps(output).encode()) == [KEY, OTHER]


def test_keys_of_a_list_with_comments() -> None:
    assert read_expectations(f"# known\n\n{KEY} the image of beijing\n  {OTHER}\n".encode()) == [KEY, OTHER]


def test_an_empty_list_expects_nothing() -> None:
    assert read_expectations(b"") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"nonsense", "line 1: 'nonsense' is no key"),
        (b"# a\n0123", "line 2"),
        (b'{"changes":', "not JSON"),
        (b'{"summary":{}}', 'no list "changes"'),
        (b'{"changes":[{}]}', "/changes/0/key"),
        (b'{"changes":[5]}', "/changes/0/key"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_other_files_are_refused_with_the_place(text: bytes, reason: str) -> None:
    with pytest.raises(ExpectationError, match=reason):
        read_expectations(text)
