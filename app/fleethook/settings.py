"""The settings of ``fleethook serve``. Flags override ``FLEETHOOK_*`` variables, which override the file."""

from typing import TYPE_CHECKING

from pydantic import create_model

from fleethook.engine import installed_engines, load_reference
from fleethook.server_settings import ServerSettings

if TYPE_CHECKING:

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
