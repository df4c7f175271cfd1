import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.model.formats.text import is_inert
from fleethook.server.logs.logs import MAX_LINE_BYTES, JSONFormatter, Stamps, encode_line
from tests.model.formats.test_text import HOSTILE


@pytest.mark.parametrize(
    "moment",
    ["2026-11-21T12:00:00.000", "2026-11-21T12:00:00.001", "2026-11-21T12:00:00.999", "2027-01-01T00:00:00.500"],
)
def test_the_time_is_in_utc_with_milliseconds(moment: str) -> None:
    seconds = datetime.fromisoformat(f"{moment}+00:00").timestamp()
    assert Stamps(lambda: seconds + 1e-6)() == f"{moment}+00:00"


def test_the_timestamp_changes_with_the_second() -> None:
    times = iter([1000.25, 1000.75, 1001.0, 1059.5, 1060.0, 999.0])
    stamps = Stamps(lambda: next(times))
    for second, millisecond in ((1000, 250), (1000, 750), (1001, 0), (1059, 500), (1060, 0), (999, 0)):
        wanted = datetime.fromtimestamp(second + millisecond / 1000, UTC).isoformat(timespec="milliseconds")
        assert stamps() == wanted


FIELDS = st.dictionaries(st.text(), st.none() | st.integers() | HOSTILE | st.lists(HOSTILE), max_size=8)


@given(FIELDS)
def test_a_line_escapes_control_characters_and_keeps_the_values(fields: dict[str, Any]) -> None:
    line = encode_line(fields)
    assert line.endswith(b"\n")
    assert is_inert(line.decode()[:-1])
    assert json.loads(line) == fields


@pytest.mark.parametrize(
    "fields",
    [
        {"msg": "review", "uid": "u" * 1_000_000},
        {"msg": "review", "uid": "\u202e" * 1_000_000},
        {"msg": "review", "hooks": ["h" * 100] * 100_000},
        {"msg": "review", "answers": [{"x" * 9_000: "\x1b" * 9_000}] * 1_000},
        {"msg": "\x1b" * 20_000, **{f"{number}": "x" * 1_000 for number in range(1_000)}},
    ],
)
def test_a_long_line_is_cut_and_marked(fields: dict[str, Any]) -> None:
    line = encode_line(fields)
    assert len(line) <= MAX_LINE_BYTES
    found = json.loads(line)
    assert found["cut"] is True
    assert found["msg"][:6] == fields["msg"][:6]


def test_a_cut_string_states_the_number_of_omitted_characters() -> None:
    found = json.loads(encode_line({"uid": "u" * 1_000_000, "route": "/r"}))
    assert found == {"uid": "u" * 4096 + "… (995904 characters left out)", "route": "/r", "cut": True}


def test_a_record_of_the_standard_library_is_one_line_of_limited_length() -> None:
    record = logging.LogRecord("uvicorn", logging.INFO, "", 0, "%s", ("\x1b[2J\u2028" + "x" * 100_000,), None)
    line = JSONFormatter().format(record)
    assert is_inert(line)
    assert len(line.encode()) < MAX_LINE_BYTES


def test_the_end_of_a_traceback_is_kept() -> None:
    error = ValueError("x" * 10_000 + " the end")
    record = logging.LogRecord("app", logging.ERROR, "", 0, "failed", (), (ValueError, error, None))
    assert json.loads(JSONFormatter().format(record))["exception"].endswith(" the end")
