"""The settings of the server with the sections of all engines."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fleethook.engine import installed_engines, load_reference
from fleethook.server_settings import CONFIG_VARIABLE, ServerSettings
from fleethook.settings import InvalidSettingsError, Settings, read_settings


def test_the_settings_have_the_section_of_each_engine() -> None:
    settings = Settings()
    sections = [load_reference(one.settings) for one in installed_engines().values() if one.settings]
    assert len(sections) == 4
    assert all(settings.section(one) is settings for one in sections)


def test_no_two_sections_have_a_setting_of_one_name() -> None:
    own = [set(load_reference(one.settings).model_fields) for one in installed_engines().values() if one.settings]
    names = [name for fields in own for name in fields - set(ServerSettings.model_fields)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("given", [{"rollout_warning_share": 2}, {"dispatch_callers": [""]}, {"policy_limit": -1}])
def test_the_settings_of_engines_that_are_off_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(given))):
        Settings(engines=["crds"], **given)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValidationError, match="lua_minutes"):
        Settings(lua_minutes=1)


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, "")
    monkeypatch.delenv("FLEETHOOK_PORT", raising=False)


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    return file


def test_flags_precede_the_environment_and_the_environment_precedes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "port: 1001\n")
    assert read_settings({}, file).port == 1001
    monkeypatch.setenv("FLEETHOOK_PORT", "1002")
    assert read_settings({}, file).port == 1002
    assert read_settings({"port": 1003}, file).port == 1003


def test_a_missing_file_and_an_invalid_setting_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingsError, match=r"none\.yaml is not a file"):
        read_settings({}, tmp_path / "none.yaml")
    for text, problem in (
        ("port: nowhere\n", "port: "),
        ("prot: 1\n", "prot: there is no such setting"),
        ("webhook_url: http://a\n", "webhook_url: 'http://a' does not match ^https://"),
    ):
        with pytest.raises(InvalidSettingsError, match=f"^settings: {re.escape(problem)}"):
            read_settings({}, write(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (CONFIG_VARIABLE, "none.yaml", "$FLEETHOOK_CONFIG: none.yaml is not a file"),
        ("FLEETHOOK_ENGINES", "rules", 'settings: error parsing value for field "engines" from source '),
    ],
)
def test_an_unusable_environment_is_an_error(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, problem: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettingsError, match=f"^{re.escape(problem)}"):
        read_settings({}, None)


@pytest.mark.parametrize("text", ["a: [", "- 1", "word", "port: \xe9"])
def test_a_file_without_settings_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(InvalidSettingsError, match=f"^--config: {re.escape(str(file))}: not YAML with settings: "):
        read_settings({}, file)
