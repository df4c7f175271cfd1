"""A cache that limits the number of tarballs in memory."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.cache.tarball_cache import Cache, Origin
from fleethook.engines.crds.tarball_source import Source
from tests.engines.crds.tarballs import build, small

KEY = Source("https://example.com/crds.tar.gz").key


def test_tarballs_are_in_memory_within_turns_that_are_never_nested(tmp_path: Path) -> None:
    turns, holding = list[str](), False

    @contextmanager
    def reading() -> Iterator[None]:
        nonlocal holding
        assert not holding, "a turn within a turn waits for ever if there is only one"
        holding = True
        turns.append("reading")
        yield
        holding = False

    def verify(load: Callable[[], bytes], *, strict: bool, normalize_dot: bool) -> archive.Manifest:
        assert not holding, "a tarball that waits for its verification takes a turn of others"
        turns.append("verifying")
        return archive.verify(load(), strict=strict, normalize_dot=normalize_dot)

    cache = Cache(tmp_path).bounded_by(verify, reading)
    file = tmp_path / "crds.tar.gz"
    file.write_bytes(build(small()))
    cache.import_file(KEY, file, Origin())
    assert turns == ["verifying", "reading"]
    assert cache.entry(KEY) is not None
    assert turns[2:] == ["reading"]
    shutil.rmtree(cache.path(KEY) / "crds")
    assert cache.entry(KEY) is None
    with cache.lock(KEY):
        adopted = cache.adopt(KEY)
    assert adopted is not None
    assert turns[4:] == ["reading", "verifying", "reading", "reading"]
