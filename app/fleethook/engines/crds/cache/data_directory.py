"""The data directory of the user, which has the cache unless a command names another one."""

from pathlib import Path

import platformdirs


def find_data_directory() -> Path:
    """Return the data directory of the user, whether or not it exists."""
    return Path(platformdirs.user_data_dir("fleethook"))
