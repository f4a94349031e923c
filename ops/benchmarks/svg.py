"""Horizontal bars with whiskers, as SVG text. Written by hand: one kind of plot needs no plotting library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LABELS, _BARS, _FIGURES = 240, 400, 170
"""Widths of the three columns, in SVG units (pixels at normal size)."""
_ROW, _TOP, _BOTTOM = 26, 44, 34
_OURS, _OTHERS, _TARGET, _TEXT, _GRID = "#2563eb", "#94a3b8", "#dc2626", "#1f2937", "#e5e7eb"
_WIDE = 50.0
"""From this ratio of the largest to the smallest figure on, a linear axis would hide the small ones."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One row. Without a figure its note stands where the bar would be."""

    label: str
    median: float | None
    lower: float = 0.0
    upper: float = 0.0
    ours: bool = False
    note: str = ""


def bars(title: str, unit: str, rows: list[Bar], target: float | None = None) -> str:
    """A whole SVG document. The axis is logarithmic where figures differ by 50 times and more."""
    figures = [row.median for row in rows if row.median is not None]
    seen = [*figures, *(row.upper for row in rows if row.median is not None), *([target] if target else [])]
    positive = [figure for figure in seen if figure > 0]
    high = max(positive, default=1.0)
    low = min((figure for figure in figures if figure > 0), default=high)
    logarithmic = high / low >= _WIDE
    floor = 10.0 ** math.floor(math.log10(low) - 0.3) if logarithmic else 0.0

    def at(figure: float) -> float:
        if not logarithmic:
            return max(figure, 0.0) / high * _BARS
        return math.log10(max(figure, floor) / floor) / math.log10(high / floor) * _BARS

    height = _TOP + len(rows) * _ROW + _BOTTOM
    parts = [_line(_LABELS + at(tick), _TOP - 6, height - _BOTTOM, _GRID) for tick in _ticks(floor, high)]
    parts += [
        _text(_LABELS + at(tick), height - _BOTTOM + 16, f"{tick:g}", "middle", 11)
        for tick in _ticks(floor, high)
    ]
    for number, row in enumerate(rows):
        parts += _row(row, _TOP + number * _ROW, unit, at)
    if target is not None:
        parts.append(_line(_LABELS + at(target), _TOP - 6, height - _BOTTOM, _TARGET))
        parts.append(_text(_LABELS + at(target), _TOP - 10, f"target {target:g}", "middle", 10, _TARGET))
    scale = ", logarithmic" if logarithmic else ""
    heading = _text(8, 18, f"{title} ({unit}{scale}; whiskers: quartiles)", "start", 13)
    width = _LABELS + _BARS + _FIGURES
    body = "\n".join((heading, *parts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


def _row(row: Bar, top: float, unit: str, at: Callable[[float], float]) -> list[str]:
    middle = top + _ROW / 2
    parts = [_text(_LABELS - 8, middle + 4, row.label, "end", 12)]
    if row.median is None:
        return [*parts, _text(_LABELS + 6, middle + 4, row.note, "start", 11, _OTHERS)]
    end = _LABELS + at(row.median)
    parts.append(
        f'<rect x="{_LABELS}" y="{top + 5:.1f}" width="{max(at(row.median), 1):.1f}" height="{_ROW - 10}" '
        f'fill="{_OURS if row.ours else _OTHERS}"/>'
    )
    if row.upper > row.lower:
        left, right = _LABELS + at(row.lower), _LABELS + at(row.upper)
        parts.append(
            f'<path d="M{left:.1f} {middle - 4:.1f}v8m0 -4H{right:.1f}m0 -4v8" stroke="{_TEXT}" fill="none"/>'
        )
        end = max(end, right)
    said = f"{figure(row.median)} {unit}" + (f" · {row.note}" if row.note else "")
    return [*parts, _text(end + 6, middle + 4, said, "start", 11)]


def figure(value: float) -> str:
    """A number with three digits that count."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def _ticks(floor: float, high: float) -> list[float]:
    if floor:
        first, last = round(math.log10(floor)), math.floor(math.log10(high) + 1e-9)
        return [10.0**power for power in range(first, last + 1)]
    step = 10.0 ** math.floor(math.log10(high))
    step = next(step * part for part in (0.2, 0.5, 1.0, 2.0) if high / (step * part) <= 6)
    return [number * step for number in range(int(high / step + 1e-9) + 1)]


def _line(x: float, top: float, bottom: float, colour: str) -> str:
    return f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, size: int, colour: str = _TEXT) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">'
        f"{escape(text)}</text>"
    )
