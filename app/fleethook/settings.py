"""The settings of ``fleethook serve``. Flags override ``FLEETHOOK_*`` variables, which override the file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError, create_model
from pydantic_settings import SettingsError

from fleethook.engine import installed_engines, load_reference
from fleethook.server_settings import CONFIG_VARIABLE, ServerSettings

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    class Settings(ServerSettings):
        """The settings of the server, with a section for each installed engine."""

else:
    _sections = [load_reference(one.settings) for one in installed_engines().values() if one.settings]
    Settings = create_model(
        "Settings",
        __base__=(*reversed(_sections), ServerSettings),
        __doc__="The settings of the server, with a section for each installed engine.",
        __module__=__name__,
    )


class InvalidSettingsError(Exception):
    """The settings cannot be used; the text names the setting or the file, and the reason."""


def read_settings(flags: dict[str, Any], config: Path | None) -> Settings:
    """Return the settings.

    Args:
        flags: Settings that override the environment and the file.
        config: The file; None for the one that ``FLEETHOOK_CONFIG`` names, if any.

    Raises:
        InvalidSettingsError: A setting is invalid, or the file cannot be read.
    """
    if config is not None:
        # `Settings` takes the file from there.
        os.environ[CONFIG_VARIABLE] = str(config)
    file = os.environ.get(CONFIG_VARIABLE)
    if file and not Path(file).is_file():
        raise InvalidSettingsError(f"{f'${CONFIG_VARIABLE}' if config is None else '--config'}: {file} is not a file")
    try:
        return Settings(**flags)
    except ValidationError as error:
        raise InvalidSettingsError("; ".join(_describe(details, flags) for details in error.errors())) from None
    except SettingsError as error:
        raise InvalidSettingsError(f"settings: {error}: write lists and mappings as JSON") from None
    # Errors of YAML and of its encoding, and of a file that is no mapping.
    except (yaml.YAMLError, ValueError, TypeError) as error:
        is_readable = not isinstance(error, yaml.YAMLError | UnicodeError)
        reason = "give a mapping of names and values" if is_readable else " ".join(str(error).split())
        raise InvalidSettingsError(f"--config: {file}: not YAML with settings: {reason}") from None


def _describe(error: "ErrorDetails", flags: dict[str, Any]) -> str:
    """Return the reason why settings are invalid, after the flag or the name of the setting."""
    name, reason = ".".join(map(str, error["loc"])), error["msg"].removeprefix("Value error, ")
    if not name:
        return f"settings: {reason}"
    if error["type"] == "extra_forbidden":
        reason = "there is no such setting"
    elif error["type"] == "string_pattern_mismatch":
        reason = f"{error['input']!r} does not match {error['ctx']['pattern']}"
    return f"--{name.replace('_', '-')}: {reason}" if name in flags else f"settings: {name}: {reason}"
