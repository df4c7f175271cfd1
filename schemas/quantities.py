"""Write tests/model/quantities.tsv: texts and their quantities in k8s.io/apimachinery.

``python -m schemas.quantities`` needs Go and the modules of tests/e2e/controlplane. The columns are the text, its
stored form, and its stored form in a ResourceList; the latter two are empty if the text is no quantity.
"""

import json
import random
import sys
from pathlib import Path
from typing import Final

from schemas.workloads import run_go

TABLE: Final = Path(__file__).parent.parent / "tests" / "model" / "quantities.tsv"

_COUNT: Final = 3000
_SIGNS: Final = ("", "", "", "", "+", "-")
_FRACTIONS: Final = ("", "", "", ".", ".0", ".5", ".500", ".000", ".0001", ".0000000001")
_SUFFIXES: Final = (
    "", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    "e0", "e1", "e2", "e3", "E3", "e6", "e18", "e20", "e+3", "e-3", "E-2", "e-9", "K", "i", "ki", "x", "e", "mm", " ",
)  # fmt: skip


def texts() -> list[str]:
    """Return a fixed list of texts: numbers of all lengths with all suffixes, and texts that are no quantities."""
    chosen = random.Random(16)  # noqa: S311 - no secret
    found = {
        f"{chosen.choice(_SIGNS)}{_digits(chosen)}{_fraction(chosen)}{chosen.choice(_SUFFIXES)}" for _ in range(_COUNT)
    }
    return sorted(text for text in found if text.strip())


def _digits(chosen: random.Random) -> str:
    return chosen.choice(
        (
            "",
            str(chosen.randint(0, 2000)),
            f"0{chosen.randint(0, 99)}",
            str(chosen.randint(0, 10 ** chosen.randint(1, 24))),
            f"{chosen.randint(1, 99)}{'0' * chosen.randint(0, 9)}",
            str(1024 * chosen.randint(1, 4096)),
            str(2 ** chosen.randint(0, 64)),
        )
    )


def _fraction(chosen: random.Random) -> str:
    return chosen.choice((*_FRACTIONS, f".{chosen.randint(0, 999)}", f".{chosen.randint(0, 10**12)}"))


def table() -> str:
    """Return the text of `TABLE`."""
    lines = run_go("quantities", "\n".join(texts()) + "\n").splitlines()
    rows = (json.loads(line) for line in lines)
    return "".join(f"{row['text']}\t{row.get('plain', '')}\t{row.get('listed', '')}\n" for row in rows)


def main() -> int:
    """Write the table; return the exit code."""
    TABLE.write_text(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
