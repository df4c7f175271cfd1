"""`python -m benchmarks.servers NAME --cert-dir DIR`: prints ``serving on PORT`` once it serves."""

import argparse
from importlib import import_module
from pathlib import Path

MODULES = {
    "fleethook": "ours",
    "floor": "ours",
    "noop": "ours",
    "echo": "ours",
    "admitting": "admitting",
    "bare": "bare",
    "ordinary": "ordinary",
    "rules": "fastapi_rules",
}
"""Only one is imported, because memory is compared, too."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=MODULES)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--cert-dir", type=Path, required=True)
    parser.add_argument("--overriders", type=int, default=0, help="minimum number of overriders in the store")
    parser.add_argument("--objects", type=int, default=0, help="workloads in the store, as partial objects")
    parser.add_argument("--churn", type=int, default=0, help="workloads that are replaced each second")
    parser.add_argument("--hooks", type=int, default=0, help="mutating webhooks of one logical cluster")
    parser.add_argument("--otlp-endpoint", default=None, help="URL of a collector of traces")
    parser.add_argument("--traced", type=float, default=1.0, help="share of reviews to trace")
    parser.add_argument("--collector", choices=["settled", "default"], default="settled")
    given = parser.parse_args()
    import_module(f"benchmarks.servers.{MODULES[given.name]}").serve(given)


if __name__ == "__main__":
    main()
