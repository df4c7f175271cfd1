"""The result of compiling to policies."""

from fleethook.engines.overrider.policies.compilation import Compilation, Refusal


def test_a_refusal_means_that_the_overrider_does_not_compile() -> None:
    assert Compilation((), "", ()).compiles
    assert not Compilation((), "", (Refusal("entries[0]", "", "a reason"),)).compiles
