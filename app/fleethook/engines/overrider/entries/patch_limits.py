"""Limits of the patches of one subject on one workload."""

from typing import Final

from fleethook.patch import PatchLimits

LIMITS: Final = PatchLimits(operations=1_000, moved=1_000_000)
"""kube-apiserver waits for the render, and other reviews wait behind it. A thousand patches take some 20 ms. OpenYurt
has no limit."""
MAX_VALUES: Final = 10_000
"""Values (texts, numbers, lists, objects) of one patch or item. A large Pod template has 500."""
MAX_SHARED_VALUES: Final = 200_000
"""Values of the spec of a subject without its list of node pools: 5,000 tweaks of a YurtAppSet v1beta1 have 100,000."""
MAX_TEMPLATE_VALUES: Final = 25_000
"""Values of a subject's templates, for checks of its overrider. Rendering that many takes a quarter of a second, in
slices of up to 30 ms."""
