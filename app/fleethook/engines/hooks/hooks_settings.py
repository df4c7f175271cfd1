"""The settings of admission rules in Python."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from fleethook.server_settings import ServerSettings


class HooksSettings(ServerSettings):
    """The settings of admission rules. Each is a setting of the server, with its own name."""

    hooks: Annotated[
        list[Path], Field(description="Files (*.py) of admission rules. Changes are loaded while the server runs.")
    ] = Field(default_factory=list)
    hook_settings: Annotated[
        dict[str, Any], Field(description="Values that admission rules get as their parameter settings.")
    ] = Field(default_factory=dict)
    hook_threads: Annotated[
        int,
        Field(description="Threads for admission rules. One rule uses at most a half of them.", ge=2, le=256),
    ] = 8
