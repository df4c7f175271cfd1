from pathlib import Path

import pytest

from fleethook.engines.crds.cache_or_download import Fetched, Result
from fleethook.engines.crds.controller.instance_conditions_and_events import (
    report_deletion,
    report_download,
    report_failed,
    report_invalid,
    report_prepared,
)
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit

SHA = "ab" * 32


def fetched(result: Result, *warnings: str) -> Fetched:
    return Fetched(result, "key", Path("/c"), SHA, 90, "https://m/c.tar.gz", "", "", 1, 0.1, warnings)


@pytest.mark.parametrize(
    ("result", "reason", "event"),
    [
        ("downloaded", "Downloaded", "CRDsDownloaded"), ("revalidated", "Revalidated", "CRDsCacheHit"),
        ("cached", "Cached", "CRDsCacheHit"), ("stale", "Stale", "CRDsStale"),
    ],
)  # fmt: skip
def test_a_fetched_tarball_is_ready_with_its_reason(result: Result, reason: str, event: str) -> None:
    outcome = report_prepared(fetched(result))
    text = f"sha256:{SHA}, 90 bytes, from https://m/c.tar.gz"
    assert outcome.ready == ("Ready", "True", "Completed", "karmada init job is completed")
    assert outcome.prepared == ("CRDsPrepared", "True", reason, text)
    assert outcome.event == ("Warning" if result == "stale" else "Normal", event, text)
    assert outcome.retry == "never"
    assert outcome.succeeded


def test_warnings_are_in_the_message() -> None:
    assert report_prepared(fetched("cached", "odd group", "two documents")).prepared.message.endswith(
        "; odd group; two documents"
    )


@pytest.mark.parametrize(
    ("code", "transient", "reason", "step", "retry"),
    [
        (Exit.NETWORK, True, "DownloadFailed", "failed to download CRD tar, err: ", "soon"),
        (Exit.HTTP, False, "DownloadFailed", "failed to download CRD tar, err: ", "slowly"),
        (Exit.HTTP, True, "DownloadFailed", "failed to download CRD tar, err: ", "soon"),
        (Exit.TLS, False, "DownloadFailed", "failed to download CRD tar, err: ", "slowly"),
        (Exit.LOCKED, True, "DownloadFailed", "failed to download CRD tar, err: ", "soon"),
        (Exit.DISK, True, "DownloadFailed", "failed to download CRD tar, err: ", "soon"),
        (Exit.INTERNAL, False, "DownloadFailed", "failed to download CRD tar, err: ", "slowly"),
        (Exit.NOT_CACHED, False, "Offline", "failed to download CRD tar, err: ", "slowly"),
        (Exit.USAGE, True, "SourceInvalid", "failed to download CRD tar, err: ", "soon"),
        (Exit.USAGE, False, "SourceInvalid", "failed to download CRD tar, err: ", "slowly"),
        (Exit.INTEGRITY, False, "IntegrityFailed", "[unpack] inValid crd tar, err: ", "slowly"),
        (Exit.ARCHIVE, False, "InvalidArchive", "[unpack] inValid crd tar, err: ", "slowly"),
        (Exit.LIMIT, False, "LimitExceeded", "[unpack] inValid crd tar, err: ", "slowly"),
    ],
)
def test_failures_have_different_reasons(code: Exit, transient: bool, reason: str, step: str, retry: str) -> None:
    outcome = report_failed(CRDsError(code, "what went wrong", transient=transient))
    assert outcome.ready == ("Ready", "False", "Failed", f"{step}what went wrong")
    assert outcome.prepared == ("CRDsPrepared", "False", reason, "what went wrong")
    assert outcome.event == ("Warning", f"CRDs{reason}", "what went wrong")
    assert outcome.retry == retry
    assert not outcome.succeeded


def test_an_invalid_spec_has_no_retry() -> None:
    outcome = report_invalid(CRDsError(Exit.USAGE, "validation errors: [x]"))
    assert outcome.ready == ("Ready", "False", "ValidationError", "validation errors: [x]")
    assert outcome.prepared == ("CRDsPrepared", "False", "SourceInvalid", "validation errors: [x]")
    assert outcome.event == ("Warning", "ValidationError", "validation errors: [x]")
    assert outcome.retry == "never"


def test_conditions_during_a_download_and_a_deletion() -> None:
    ready, crds = report_download("https://m/c.tar.gz")
    assert ready == ("Ready", "False", "Progressing", "karmada init job is in progressing")
    assert crds == ("CRDsPrepared", "False", "Downloading", "downloading https://m/c.tar.gz")
    assert report_deletion() == ("Ready", "False", "Progressing", "karmada deinit job is in progressing")
