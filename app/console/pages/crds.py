"""The section ``/crds``: the list of its objects."""

from typing import Final

from app.console.pages.object_list import make_router
from app.console.sections import SECTIONS

router: Final = make_router(next(one for one in SECTIONS if one.path == "/crds"))
