"""`docs/speed.svg`: jobs drained per second as bars. Written by hand, readable on light and on dark pages."""

from __future__ import annotations

import statistics
from typing import Any

WIDTH, ROW, LABEL, VALUE, TOP = 760, 30, 110, 90, 62

STYLE = """\
    text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .small { font-size: 12px; fill: #59636e }
    .ours { font-weight: 600 }
    .bar { fill: #9aa7b4 }
    .bar.ours { fill: #0b7a75 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .small { fill: #9198a1 }
      .bar { fill: #56606b }
      .bar.ours { fill: #2fb8ae }
    }"""


def draw(outcome: dict[str, Any]) -> str:
    """A bar for every queue that was drained, the fastest first."""
    rates = {
        name: statistics.median(peer["values"]["drain"])
        for name, peer in outcome["peers"].items()
        if name != "raw" and peer["values"].get("drain")
    }
    found = sorted(rates.items(), key=lambda item: -item[1])
    room = WIDTH - LABEL - VALUE
    most = max(rates.values(), default=1)
    height = TOP + ROW * len(found) + 12
    rounds = f"medians of {outcome['sizes']['rounds']} rounds in turn"
    when = f"{outcome['date'][:10]}, {outcome['machine']['cores']} cores, {rounds}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d">',
        '  <title id="t">Jobs drained per second</title>',
        f'  <desc id="d">{"; ".join(f"{name} {rate:,.0f}" for name, rate in found)}</desc>',
        f"  <style>\n{STYLE}\n  </style>",
        '  <text class="title" x="8" y="24">Jobs drained per second by workers on two cores</text>',
        f'  <text class="small" x="8" y="44">No-op jobs; {when}. Longer is better.</text>',
    ]
    for number, (name, rate) in enumerate(found):
        ours = " ours" if name == "headrace" else ""
        top = TOP + ROW * number
        length = max(room * rate / most, 1)
        lines += [
            f'  <text class="label{ours}" x="{LABEL - 10}" y="{top + 16}" text-anchor="end">{name}</text>',
            f'  <rect class="bar{ours}" x="{LABEL}" y="{top}" width="{length:.1f}" height="{ROW - 8}" rx="2"/>',
            f'  <text class="value{ours}" x="{LABEL + length + 8:.1f}" y="{top + 16}">{rate:,.0f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])
