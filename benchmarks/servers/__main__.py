"""`python -m benchmarks.servers NAME --cert-dir DIR`: says ``serving on PORT`` once it does."""

import argparse
from importlib import import_module
from pathlib import Path

MODULES = {"fleethook": "ours", "floor": "ours", "echo": "ours", "bare": "bare", "ordinary": "ordinary"}
"""Each is imported alone: memory is compared too."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=MODULES)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--cert-dir", type=Path, required=True)
    parser.add_argument("--overriders", type=int, default=0, help="how many the store has at least")
    parser.add_argument("--objects", type=int, default=0, help="how many workloads the store has, kept narrow")
    parser.add_argument("--churn", type=int, default=0, help="how many of these workloads are replaced each second")
    parser.add_argument("--hooks", type=int, default=0, help="how many mutating webhooks one logical cluster has")
    parser.add_argument("--record", type=Path, default=None, help="directory to record reviews in")
    parser.add_argument("--collector", choices=["settled", "default"], default="settled")
    given = parser.parse_args()
    import_module(f"benchmarks.servers.{MODULES[given.name]}").serve(given)


if __name__ == "__main__":
    main()
