"""Tests of the memory limit of control groups."""

from pathlib import Path

import pytest

from app.api.cgroup import find_memory_limit

PHYSICAL = find_memory_limit(Path("/nonexistent"))


def root(directory: Path, groups: str, **limits: str) -> Path:
    (directory / "proc" / "self").mkdir(parents=True)
    (directory / "proc" / "self" / "cgroup").write_text(groups)
    for name, text in limits.items():
        file = directory / "sys" / "fs" / "cgroup" / name.replace("__", "/").replace("_DOT_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return directory


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/\n", {"memory_DOT_max": "1048576\n"}, 1048576),
        ("0::/\n", {"memory_DOT_max": "max\n"}, PHYSICAL),
        ("0::/\n", {}, PHYSICAL),
        ("", {"memory_DOT_max": "1048576\n"}, PHYSICAL),
        # A group is limited by those around it.
        ("0::/pod/container\n", {"pod__memory_DOT_max": "2097152\n", "pod__container__memory_DOT_max": "3145728\n"}, 2097152),
        ("0::/pod/container\n", {"pod__memory_DOT_max": "max\n", "pod__container__memory_DOT_max": "3145728\n"}, 3145728),
        # The path is the host's, and the container sees its own group only.
        ("0::/kubepods/pod1\n", {"memory_DOT_max": "4194304\n"}, 4194304),
        ("5:cpu,memory:/a\n1:name=systemd:/a\n", {"memory__a__memory_DOT_limit_in_bytes": "5242880\n"}, 5242880),
        ("4:memory:/docker/x\n0::/\n", {"memory__memory_DOT_limit_in_bytes": "6291456\n"}, 6291456),
        ("4:memory:/\n", {"memory__memory_DOT_limit_in_bytes": "9223372036854771712\n"}, PHYSICAL),
    ],
)  # fmt: skip
def test_the_memory_limit_is_that_of_the_control_group(
    tmp_path: Path, groups: str, limits: dict[str, str], expected: int
) -> None:
    assert find_memory_limit(root(tmp_path, groups, **limits)) == expected


def test_the_memory_of_the_machine_limits_a_larger_group(tmp_path: Path) -> None:
    assert find_memory_limit(root(tmp_path, "0::/\n", memory_DOT_max=str(PHYSICAL + 1))) == PHYSICAL
