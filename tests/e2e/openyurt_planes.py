"""Control planes for the versions of OpenYurt, each with the definitions of that version."""

from collections.abc import Collection
from typing import Final, NamedTuple

import pytest

from tests.e2e.cluster import ControlPlane
from tests.e2e.openyurt import V1_4, V1_5, Form, Release, V1Alpha1
from tests.e2e.openyurt_v1beta1 import V1Beta1
from tests.e2e.scenario import POOLS, apply_node_pools


class Version(NamedTuple):
    """A version of OpenYurt.

    Attributes:
        plane: The fixture that is a control plane with the definitions of that version.
        release: The behaviour of its controllers.
        form: The form of its subjects.
    """

    plane: str
    release: Release
    form: Form

    def start_plane(self, request: pytest.FixtureRequest, pools: Collection[str] = POOLS) -> ControlPlane:
        """Return the control plane, with the NodePools that the version needs."""
        found: ControlPlane = request.getfixturevalue(self.plane)
        if self.form.node_pools_path:
            apply_node_pools(found.api(), self.form, **{name: {} for name in pools})
        return found


VERSIONS: Final = {
    "openyurt-1.4": Version("managed_plane", V1_4, V1Alpha1()),
    "openyurt-1.7": Version("openyurt_plane", V1_5, V1Beta1()),
}
