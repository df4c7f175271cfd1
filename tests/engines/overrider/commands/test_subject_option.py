"""The names of subjects in ``--subject``."""

import pytest

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.commands.subject_option import parse_subject
from fleethook.model.openyurt import YURT_APP_SET


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("YurtAppSet/demo", True), ("yurtappset/demo", True), ("yurtappsets/demo", True), ("yurtappset/default/demo", True),
        ("YurtAppSet.apps.openyurt.io/default/demo@root", True), ("YurtAppSet/other", False), ("YurtAppSet/team/demo", False),
        ("YurtAppSet.example.org/demo", False), ("YurtAppDaemon/demo", False), ("YurtAppSet/demo@other", False),
    ],
)  # fmt: skip
def test_a_subject_is_found_by_each_form_of_its_name(text: str, *, matches: bool) -> None:
    keys = [ObjectKey("root", YURT_APP_SET, namespace, "demo") for namespace in ("default", "")]
    assert [parse_subject(text).matches(key) for key in keys] == [matches, matches]


@pytest.mark.parametrize("text", ["demo", "a/b/c/d", "YurtAppSet/"])
def test_another_form_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_subject(text)
    message = f"fleethook: --subject {text}: expected KIND/NAME, as in YurtAppSet/default/demo\n"
    assert capsys.readouterr().err == message
