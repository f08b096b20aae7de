from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tests"))

from bench.growth import load_rows
from bench.tools import Report


def main() -> int:
    rows = load_rows()
    parser = argparse.ArgumentParser(
        prog="python -m bench.growth",
        description="What surrounds jobs, small against large, in one run.",
        epilog="rows:\n" + "\n".join(f"  {name}" for name in rows),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("word", nargs="*", help="only rows whose names contain all of these words")
    words = parser.parse_args().word
    chosen = {name: measure for name, measure in rows.items() if all(word in name for word in words)}
    if not chosen:
        parser.error(f"no row has {' and '.join(words)} in its name.")
    report = Report("Flat as the work grows")
    for name, measure in chosen.items():
        print(f"{name}:", flush=True)
        measure(report)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
