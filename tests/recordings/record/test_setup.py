"""The recorder of a server, made from its settings."""

import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from fleethook.recordings.record.recorder import RecordMetrics
from fleethook.recordings.record.setup import make_encoder, make_recorder, record_reviews
from fleethook.server.reviews.recording import RecordSettingError
from fleethook.settings import Settings
from tests.recordings.builders import answered, read_lines

SECRET = {"request": {"uid": "1", "object": {"kind": "Secret", "apiVersion": "v1", "stringData": {"a": "hunter2!"}}}}


def test_two_encoders_hash_with_keys_of_their_own() -> None:
    one, other = (make_encoder([]).encode([answered(SECRET)]).text for _ in range(2))
    assert b"hunter2!" not in one + other
    assert json.loads(one)["review"] != json.loads(other)["review"]


def test_named_fields_are_redacted_beside_secrets() -> None:
    body = {"request": {"uid": "1", "object": {"kind": "ConfigMap", "password": "hunter2!"}}}
    assert b"hunter2!" in make_encoder([]).encode([answered(body)]).text
    assert b"hunter2!" not in make_encoder(["password"]).encode([answered(body)]).text


@pytest.mark.parametrize("text", ["", "/", "Secret:", "a b"])
def test_a_field_that_cannot_be_read_names_the_setting(text: str) -> None:
    with pytest.raises(RecordSettingError, match="record_redact: "):
        make_encoder(["password", text])


def test_a_recorder_writes_the_rest_of_its_queue_at_the_end_and_publishes_its_metrics(tmp_path: Path) -> None:
    metrics, registry = RecordMetrics(), CollectorRegistry()
    recorder = make_recorder(Settings(record_redact=["password"]), tmp_path / "records", metrics)
    with record_reviews(recorder, metrics, registry):
        recorder(answered(SECRET))
    (file,) = (tmp_path / "records").iterdir()
    _header, line = read_lines(file)
    assert line["redacted"] is True
    assert registry.get_sample_value("fleethook_recorded_reviews_total") == 1


def test_a_directory_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_recorder(Settings(), tmp_path / "file" / "records", RecordMetrics())
