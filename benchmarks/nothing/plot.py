"""A curve as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.nothing.curve import Point

__all__ = ["svg"]

_WIDTH, _HEIGHT, _MARGIN = 480, 300, 44
_MOST_LOST = 0.1
_COLOURS = ("#1f6f8b", "#b5482a", "#4b7f2f", "#7a4b9c")


def svg(curves: Mapping[str, Sequence[Point]]) -> str:
    """Draw for each name what part of unservable requests gets nothing, over the recall that is lost."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
    ]
    for tenth in range(0, 11, 2):
        left, bottom = _x(tenth / 10 * _MOST_LOST), _y(tenth / 10)
        parts.append(f'<path d="M{_MARGIN} {bottom}H{_WIDTH - _MARGIN}M{left} {_y(0)}V{_y(1)}" stroke="#ddd"/>')
        parts.append(f'<text x="{left}" y="{_y(0) + 14}" text-anchor="middle">{tenth * _MOST_LOST * 10:.0f}</text>')
        parts.append(f'<text x="{_MARGIN - 6}" y="{bottom + 4}" text-anchor="end">{tenth * 10}</text>')
    for place, ((name, points), colour) in enumerate(zip(curves.items(), _COLOURS, strict=False)):
        line = " ".join(f"{_x(one.recall_lost)},{_y(one.silent)}" for one in points if one.recall_lost <= _MOST_LOST)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        label = f'x="{_WIDTH - _MARGIN}" y="{_y(0.05 + place * 0.07)}" text-anchor="end" fill="{colour}"'
        parts.append(f"<text {label}>{name}</text>")
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 8}" text-anchor="middle">points of Recall@5 lost</text>')
    parts.append(f'<text x="{_MARGIN}" y="16">% of unservable requests answered with nothing</text></svg>')
    return "\n".join(parts) + "\n"


def _x(lost: float) -> float:
    return round(_MARGIN + lost / _MOST_LOST * (_WIDTH - 2 * _MARGIN), 1)


def _y(silent: float) -> float:
    return round(_HEIGHT - _MARGIN - silent * (_HEIGHT - _MARGIN - 28), 1)
