"""The progress of a download: lines in a log, a bar at a terminal, or nothing."""

import pytest

from app.cli import crds_progress
from app.cli.crds_progress import Style, display_progress


@pytest.mark.parametrize("style", [Style.NONE, Style.AUTO])
def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str], style: Style) -> None:
    with display_progress(style, "https://example.org/crds.tar.gz") as report:
        assert report is None
    assert capsys.readouterr().err == ""


def test_a_log_has_a_line_a_second_and_one_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(crds_progress.time, "monotonic", lambda: now)
    with display_progress(Style.PLAIN, "crds") as report:
        assert report is not None
        report(1000, 5000)
        report(2000, 5000)
        now += 1.0
        report(3000, 5000)
        report(4000, None)
        report(5000, 5000)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("crds: ")[2] for line in lines] == [
        "1,000 of 5,000 bytes", "3,000 of 5,000 bytes", "5,000 of 5,000 bytes",
    ]  # fmt: skip


def test_a_terminal_has_a_bar_without_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with display_progress(Style.AUTO, "[bold]\x1b[31mcrds[/bold]") as report:
        assert report is not None
        report(500, 1000)
    shown = capsys.readouterr().err
    assert "[bold]" in shown
    assert "\x1b[31mcrds" not in shown
