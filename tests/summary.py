"""Write one line about several runs of pytest, from their JUnit reports; `make test-all` ends with it."""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

OUTCOMES = {"failures": "failed", "errors": "errors", "skipped": "skipped"}


def summarize(directory: Path) -> str:
    """Return the closing line of pytest for all reports of a directory together."""
    suites = [suite for report in sorted(directory.glob("*.xml")) for suite in ET.parse(report).iter("testsuite")]
    counts = {word: sum(int(one.attrib[name]) for one in suites) for name, word in OUTCOMES.items()}
    counts = {"passed": sum(int(one.attrib["tests"]) for one in suites) - sum(counts.values()), **counts}
    text = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    seconds = sum(float(one.attrib["time"]) for one in suites)
    return f" {text or 'no tests ran'} in {seconds:.2f}s ({len(suites)} runs) ".center(80, "=")


if __name__ == "__main__":
    sys.stdout.write(f"{summarize(Path(sys.argv[1]))}\n")
