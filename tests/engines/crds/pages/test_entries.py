"""The descriptions of cache entries, from a real cache."""

from pathlib import Path

import msgspec
import pytest

from fleethook.engines.crds.cache.cache_entry import RECORD, TARBALL, Listed
from fleethook.engines.crds.pages.crd_entries import describe_entry
from tests.console.crd_cache import FilledCache, fill_cache


@pytest.fixture
def filled(tmp_path: Path) -> FilledCache:
    return fill_cache(tmp_path)


def find(filled: FilledCache) -> Listed:
    found = filled.cache.inspect(filled.small.key)
    assert found is not None
    return found


def test_a_verified_entry_has_its_digest_url_and_time(filled: FilledCache) -> None:
    view, listed = describe_entry(find(filled)), find(filled)
    assert (view.key, view.url, view.sha256) == (filled.small.key, filled.small.url, filled.small.sha256)
    assert (view.state, view.is_ready, view.problem) == ("ready", True, "")
    assert view.asked_at == f"{listed.asked_at:%Y-%m-%d %H:%M:%S}"
    assert filled.small.key.startswith(view.short_key)


def test_a_damaged_entry_shows_its_problem_and_no_digest(filled: FilledCache) -> None:
    (filled.small.path / TARBALL).write_bytes(b"other")
    view = describe_entry(find(filled))
    assert (view.state, view.is_ready, view.sha256) == ("changed", False, "")
    assert view.problem == f"{TARBALL} differs from its record"
    assert "not trusted" in view.meaning


def test_an_entry_without_a_record_is_not_trusted(filled: FilledCache) -> None:
    (filled.small.path / RECORD).unlink()
    view = describe_entry(find(filled))
    assert (view.state, view.is_ready, view.url, view.sha256) == ("bare", False, "", "")


def test_credentials_and_control_characters_of_a_record_are_hidden(filled: FilledCache) -> None:
    listed = find(filled)
    assert listed.record is not None
    record = msgspec.structs.replace(
        listed.record, url="https://user:hunter2@h/x?token=hunter2\u202e", warnings=("a\x1bb",)
    )
    view = describe_entry(listed._replace(record=record))
    assert "hunter2" not in view.url
    assert "\u202e" not in view.url
    assert view.warnings == ("a\\x1bb",)
