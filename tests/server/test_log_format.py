"""The log lines about answered reviews."""

import json
import logging
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.model.admission import AdmissionRequest, denied, patched
from fleethook.model.formats.text import is_inert
from fleethook.server.log_format import (
    MAX_LINE_BYTES,
    MAX_LOGGED,
    JSONFormatter,
    Line,
    Stamps,
    encode_line,
    find_cluster,
    make_admission_line,
)
from fleethook.server.reviews import codec
from tests.model.formats.test_text import HOSTILE


@pytest.mark.parametrize(
    "moment",
    ["2026-11-21T12:00:00.000", "2026-11-21T12:00:00.001", "2026-11-21T12:00:00.999", "2027-01-01T00:00:00.500"],
)
def test_the_time_is_in_utc_with_milliseconds(moment: str) -> None:
    seconds = datetime.fromisoformat(f"{moment}+00:00").timestamp()
    assert Stamps(lambda: seconds + 1e-6)() == f"{moment}+00:00"


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


KIND = {"group": "apps", "version": "v1", "kind": "Deployment"}


def encode(kind: str, version: str, request: Any) -> bytes:
    return json.dumps({"apiVersion": version, "kind": kind, "request": request}).encode()


def admission(**request: Any) -> codec.Decoded:
    given = {"uid": "u-1", "operation": "CREATE", "namespace": "shop", "kind": KIND, **request}
    return codec.decode_review(encode("AdmissionReview", "admission.k8s.io/v1", given))


def request_of(decoded: codec.Decoded) -> AdmissionRequest:
    assert decoded.request is not None
    return decoded.request


def members(line: Line) -> dict[str, Any]:
    """Return the members of a line but those that are the same in all tests."""
    found = json.loads(encode_line(line))
    assert found.pop("ts")
    assert found.pop("level") == "info"
    return dict(found)


def line_of(review: codec.Decoded, response: Any = None) -> dict[str, Any]:
    answer = patched([{"op": "remove", "path": "/a"}]) if response is None else response
    return members(make_admission_line("/r", review, answer, seconds=0.0012345, request_id="r-1"))


ANSWERED = {
    "msg": "review",
    "route": "/r",
    "requestId": "r-1",
    "uid": "u-1",
    "allowed": True,
    "patchOps": 1,
    "ms": 1.235,
}
ASKED = {"gvk": "apps/v1/Deployment", "namespace": "shop", "operation": "CREATE"}


def test_a_line_names_the_object_under_review() -> None:
    metadata = {"name": "web", "annotations": {"kcp.io/cluster": "root:a"}}
    review = admission(name="web", object={"metadata": metadata})
    assert request_of(review).object  # as a handler decodes it
    assert line_of(review) == {**ANSWERED, **ASKED, "name": "web", "cluster": "root:a"}


def test_a_line_decodes_no_object_that_the_handler_has_not_decoded() -> None:
    review = admission(name="web", object={"metadata": {"annotations": {"kcp.io/cluster": "root:a"}}})
    assert line_of(review) == {**ANSWERED, **ASKED, "name": "web", "cluster": ""}
    assert "object" not in request_of(review).__dict__


@pytest.mark.parametrize(("generated", "name"), [("web-", "web-"), (7, "")])
def test_a_line_about_an_object_without_a_name_has_its_prefix(generated: Any, name: str) -> None:
    review = admission(object={"metadata": {"generateName": generated}})
    assert request_of(review).object
    assert line_of(review)["name"] == name


@pytest.mark.parametrize(("operation", "cluster"), [("DELETE", "root:old"), ("UPDATE", "")])
def test_the_old_object_names_the_cluster_only_of_a_deletion(operation: str, cluster: str) -> None:
    review = admission(operation=operation, oldObject={"metadata": {"annotations": {"kcp.io/cluster": "root:old"}}})
    request = request_of(review)
    assert request.old_object
    assert find_cluster(request) == cluster
    assert line_of(review)["cluster"] == cluster


def test_a_line_about_an_unreadable_review_has_its_uid_and_the_reason() -> None:
    review = admission(operation=3)
    assert review.request is None
    assert find_cluster(None) == ""
    line = line_of(review, denied("it cannot be read"))
    assert line == {**ANSWERED, "allowed": False, "patchOps": 0, "message": "it cannot be read"}


def test_long_texts_of_a_client_are_cut() -> None:
    long = "x" * 1024
    line = line_of(admission(name=long, namespace=long, kind={**KIND, "kind": long}), denied(long))
    cut = {name for name, value in line.items() if str(value).endswith(f"… ({1024 - MAX_LOGGED} characters left out)")}
    assert cut == {"name", "message"}
    assert max(len(str(value)) for value in line.values()) < 3 * 1024, "decoding limits the others"
