// Draws each chart of the page from the figures beside it, in the colours of the style sheet.
"use strict";

const drawn = new Map();

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(name, extra) {
  return {
    name, nameLocation: "middle", nameGap: 28,
    nameTextStyle: { color: color("--ink-2") },
    axisLabel: { color: color("--ink-2"), hideOverlap: true },
    axisLine: { lineStyle: { color: color("--line-strong") } },
    splitLine: { lineStyle: { color: color("--line") } },
    ...extra,
  };
}

function series(spec, one, number) {
  const own = color(one.color || `--series-${(number % 6) + 1}`);
  const values = hasNumbers(spec) ? spec.x.map((x, at) => [x, one.values[at]]) : marked(one.values, spec.num_marked);
  const common = {
    name: one.name, data: values, yAxisIndex: one.is_on_right ? 1 : 0,
    itemStyle: { color: own }, lineStyle: { color: own, width: 2 },
  };
  if (one.shape === "bar" && spec.is_time) return { ...common, type: "bar", barMaxWidth: 8 };
  if (one.shape === "bar") return { ...common, type: "bar", barCategoryGap: "12%", barMaxWidth: 120 };
  // Gaps between very many bars would be stripes thinner than a pixel.
  if (one.shape === "stack") return { ...common, type: "bar", stack: "all", barCategoryGap: values.length > 90 ? "0%" : "12%", barMaxWidth: 120 };
  if (one.shape === "scatter") return { ...common, type: "scatter", symbolSize: 7, itemStyle: { color: own, opacity: 0.6 } };
  return { ...common, type: "line", showSymbol: spec.x.length < 3, areaStyle: one.shape === "area" ? { color: own, opacity: 0.18 } : null };
}

// Whether the x axis measures: times, or numbers of a line or of points. Bars stand side by side.
function hasNumbers(spec) {
  return spec.is_time || (["line", "area", "scatter"].includes(spec.shape) && spec.x.every((x) => typeof x === "number"));
}

// Bars behind the first `number` are pale.
function marked(values, number) {
  if (number === null) return values;
  return values.map((value, at) => ({ value, itemStyle: { opacity: at < number ? 1 : 0.28 } }));
}

// Where an axis of time begins and ends. ECharts would show two days around a point that is alone.
function ends(spec) {
  if (spec.window) return { min: spec.window[0], max: spec.window[1] };
  const times = spec.x.map((x) => Date.parse(x));
  const [first, last] = [Math.min(...times), Math.max(...times)];
  return first === last ? { min: first - 60_000, max: last + 60_000 } : {};
}

function optionOf(spec) {
  const top = (spec.series.length > 1 ? 34 : 8) + 22;
  const valueAxis = (name, side) => axis(name, {
    type: "value", nameLocation: "end", nameGap: 10, nameTextStyle: { color: color("--ink-2"), align: side },
    // What the right axis measures stands below the line of the left one.
    ...(side === "right" ? { minInterval: 1, max: (range) => 3 * range.max } : {}),
    splitLine: { show: side === "left", lineStyle: { color: color("--line") } },
  });
  return {
    animation: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    aria: { enabled: true },
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    // The plot of a histogram with a threshold is as wide as the slider below it (.slider in the style sheet).
    grid: { left: spec.num_marked === null ? 12 : 60, right: 20, top, bottom: spec.num_marked === null ? 34 : 52, containLabel: spec.num_marked === null },
    legend: { show: spec.series.length > 1, top: 0, textStyle: { color: color("--ink") } },
    // As text, not HTML: names in a chart may come from documents.
    tooltip: { trigger: spec.shape === "scatter" ? "item" : "axis", renderMode: "richText", backgroundColor: color("--panel"), borderColor: color("--line-strong"), textStyle: { color: color("--ink") } },
    xAxis: axis(spec.x_name, spec.is_time ? { type: "time", ...ends(spec) } : hasNumbers(spec) ? { type: "value", splitLine: { show: false }, ...(spec.shape === "scatter" ? { scale: true } : { min: "dataMin", max: "dataMax" }) } : { type: "category", data: spec.x }),
    yAxis: [valueAxis(spec.y_name, "left"), ...(spec.right_name ? [valueAxis(spec.right_name, "right")] : [])],
    series: spec.series.map((one, number) => series(spec, one, number)),
  };
}

// A page that changes how many bars are marked says so to the plot with an event `mark`.
function mark(event) {
  const place = event.currentTarget;
  const spec = specOf(place);
  drawn.get(place).setOption({ series: spec.series.map((one) => ({ data: marked(one.values, event.detail) })) });
}

function specOf(place) {
  return JSON.parse(document.getElementById(place.dataset.chart).textContent);
}

function draw() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    if (!place.clientWidth) continue; // folded away: drawn when it is opened
    const isNew = !drawn.has(place);
    if (isNew) {
      drawn.set(place, echarts.init(place, null, { renderer: "svg" }));
      place.addEventListener("mark", mark);
    }
    const option = optionOf(specOf(place));
    drawn.get(place).setOption(isNew ? option : { ...option, animation: false }, true);
  }
}

// The page was read anew: other figures, or a chart less.
function drawAnew() {
  for (const [place, chart] of drawn) {
    if (place.isConnected) continue;
    chart.dispose();
    drawn.delete(place);
  }
  draw();
}

addEventListener("DOMContentLoaded", draw);
document.addEventListener("refreshed", drawAnew);
document.addEventListener("toggle", (event) => event.target.querySelector?.("[data-chart]") && draw(), true);
addEventListener("resize", () => drawn.forEach((chart) => chart.resize()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
