"""A plot as SVG: a few lines over a logarithmic axis, drawn with nothing but text."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log10
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 180, 50, 50
COLORS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce")


@dataclass(frozen=True, slots=True)
class Line:
    """Points with x of 1 or more, and a name for the legend."""

    name: str
    points: list[tuple[float, float]]


def plot(title: str, across: str, upward: str, lines: list[Line]) -> str:
    """The axis across is logarithmic, the one upward begins at 0."""
    points = [point for line in lines for point in line.points]
    decades = max(1, ceil(log10(max((x for x, _ in points), default=10.0)) - 1e-9))
    highest = max((y for _, y in points), default=1.0) * 1.1

    def place(x: float, y: float) -> str:
        right = LEFT + log10(x) / decades * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - y / highest * (HEIGHT - TOP - BOTTOM)
        return f"{right:.1f},{down:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="25" font-size="15">{escape(title)}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 10}" text-anchor="end">{escape(across)}</text>',
        f'<text x="10" y="{TOP}">{escape(upward)}</text>',
    ]
    for step in range(5):
        y = highest * step / 4
        start, end = place(1, y), place(10**decades, y)
        parts.append(f'<polyline points="{start} {end}" stroke="#ddd" fill="none"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{float(start.split(",")[1]) + 4:.1f}" text-anchor="end">{y:,.0f}</text>')
    for decade in range(decades + 1):
        right = place(10**decade, 0).split(",")[0]
        parts.append(f'<text x="{right}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{10**decade:,}</text>')
    for number, line in enumerate(lines):
        color = COLORS[number % len(COLORS)]
        where = " ".join(place(x, y) for x, y in line.points)
        parts.append(f'<polyline points="{where}" stroke="{color}" stroke-width="2" fill="none"/>')
        for x, y in line.points:
            right, down = place(x, y).split(",")
            parts.append(f'<circle cx="{right}" cy="{down}" r="3.5" fill="{color}"/>')
        parts.append(
            f'<text x="{WIDTH - RIGHT + 12}" y="{TOP + 20 * number}" fill="{color}">{escape(line.name)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])
