"""The settings of the server with the sections of all engines."""

from typing import Any

import pytest
from pydantic import ValidationError

from fleethook.engine import installed_engines, load_reference
from fleethook.server_settings import ServerSettings
from fleethook.settings import Settings


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
