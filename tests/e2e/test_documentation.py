"""The pages that need a cluster run with a control plane of their own, and with the printed ports."""

from pathlib import Path

import pytest

from tests.documentation.blocks import DOCS, list_transcripts
from tests.documentation.own_network import MAX_SECONDS, run_in_own_network
from tests.serving import ROOT


def test_each_page_that_needs_a_cluster_is_run(tmp_path: Path) -> None:
    pages = [blocks[0].page for blocks in list_transcripts(with_cluster=True)]
    assert pages == [ROOT / "README.md", DOCS / "tutorials" / "admission.md", DOCS / "how-to" / "install.md"]


@pytest.mark.timeout(MAX_SECONDS)
def test_a_reader_installs_overrides_and_uninstalls(binaries: Path, tmp_path: Path) -> None:
    run_in_own_network(Path(__file__).with_name("pages_with_a_cluster.py"), tmp_path)
