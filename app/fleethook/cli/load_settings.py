"""Reads the settings of the server for commands: flags, the environment and the file of ``--config``."""

import os
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fleethook.cli.exit_codes import fail
from fleethook.server_settings import CONFIG_VARIABLE
from fleethook.settings import Settings


def load_settings(flags: dict[str, Any], config: Path | None) -> Settings:
    """Return the settings. Exits with a message if one of them is invalid.

    Args:
        flags: Settings that override the environment and the file.
        config: The file; None for the one that ``FLEETHOOK_CONFIG`` names, if any.
    """
    if config is not None:
        if not config.is_file():
            fail(f"--config: {config} is not a file")
        # `Settings` takes the file from there.
        os.environ[CONFIG_VARIABLE] = str(config)
    try:
        return Settings(**flags)
    except ValidationError as error:
        fail("; ".join(_describe(details, flags) for details in error.errors()))
    # Errors of YAML and of its encoding, and of a file that is no mapping.
    except (yaml.YAMLError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        fail(f"--config: {os.environ.get(CONFIG_VARIABLE)}: not YAML with settings: {reason}")


def _describe(error: ErrorDetails, flags: dict[str, Any]) -> str:
    """Return the reason why settings are invalid, after the flag or the name of the setting."""
    name, reason = ".".join(map(str, error["loc"])), error["msg"].removeprefix("Value error, ")
    if not name:
        return f"settings: {reason}"
    return f"--{name.replace('_', '-')}: {reason}" if name in flags else f"settings: {name}: {reason}"
