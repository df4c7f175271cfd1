"""Reads the settings of the server for commands: flags, the environment and the file of ``--config``."""

import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app.cli.exit_codes import fail
from app.settings import CONFIG_VARIABLE, Settings


def load_settings(flags: dict[str, Any], config: Path | None) -> Settings:
    """Return the settings. Exits with a message if one of them is invalid.

    Args:
        flags: Settings that override the environment and the file.
        config: The file; None for the one that ``FLEETHOOK_CONFIG`` names, if any.
    """
    if config is not None:
        if not config.is_file():
            fail(f"--config: {config} is not a file")
        os.environ[CONFIG_VARIABLE] = str(config)
    try:
        return Settings(**flags)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        fail(f"settings: {problems}")
