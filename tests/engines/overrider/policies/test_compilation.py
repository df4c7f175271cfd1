"""The result of compiling to policies."""

from fleethook.engines.overrider.policies.compilation import PARTIAL_SUFFIX, Compilation, Refusal, is_partial


def test_a_refusal_means_that_the_overrider_does_not_compile() -> None:
    assert Compilation((), "", ()).compiles
    assert not Compilation((), "", (Refusal("entries[0]", "", "a reason"),)).compiles


def test_a_hash_with_the_suffix_is_partial() -> None:
    assert is_partial(f"0123456789abcdef{PARTIAL_SUFFIX}")
    assert not is_partial("0123456789abcdef")
