from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tests"))

from bench.growth import load_rows
from bench.tools import Report


def main() -> int:
    report = Report("Flat as the work grows")
    for name, measure in load_rows().items():
        if all(word in name for word in sys.argv[1:]):
            print(f"{name}:", flush=True)
            measure(report)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
