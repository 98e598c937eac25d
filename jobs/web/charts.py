"""A chart: what it shows in a sentence, the figures as a table, and how a script draws them.

The table is the chart for whoever sees no picture, or runs no script; so nothing is in the picture alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Shape = Literal["line", "area", "bar", "stack", "scatter"]


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one part of each bar."""

    name: str
    values: Sequence[float | None]  # one for each `x`
    color: str | None = None  # name of a colour of the style sheet, as `--phase-decode`
    shape: Shape | None = None  # of this series, if it is not the shape of the chart
    is_on_right: bool = False  # its values are measured by the axis on the right


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Series of figures over a common x axis."""

    id: str  # unique on its page
    title: str
    sentence: str  # says in words what the figures show
    shape: Shape
    x_name: str  # with the unit
    y_name: str  # with the unit
    x: Sequence[Any]  # numbers, or names
    series: Sequence[Series]
    is_time: bool = False  # x are ISO 8601 times
    window: tuple[str, str] | None = None  # of times: from when to when the axis goes; None: as far as the figures
    right_name: str = ""  # what the axis on the right measures, with the unit
    num_marked: int | None = None  # so many bars from the left are in colour, the others pale

    @property
    def is_empty(self) -> bool:
        return not self.x

    def unit_of(self, series: Series) -> str:
        """What the values of a series measure."""
        return self.right_name if series.is_on_right else self.y_name


def spec_of(chart: Chart) -> dict[str, Any]:
    """What `static/charts.js` draws."""
    return {
        "shape": chart.shape,
        "x": list(chart.x),
        "x_name": chart.x_name,
        "y_name": chart.y_name,
        "is_time": chart.is_time,
        "window": chart.window,
        "title": chart.title,
        "right_name": chart.right_name,
        "num_marked": chart.num_marked,
        "series": [
            {
                "name": series.name,
                "values": list(series.values),
                "color": series.color,
                "shape": series.shape or chart.shape,
                "is_on_right": series.is_on_right,
            }
            for series in chart.series
        ],
    }
