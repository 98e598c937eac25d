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
  const values = spec.is_time || spec.shape === "scatter" ? spec.x.map((x, at) => [x, one.values[at]]) : one.values;
  const common = { name: one.name, data: values, itemStyle: { color: own }, lineStyle: { color: own, width: 2 } };
  if (spec.shape === "bar") return { ...common, type: "bar", barCategoryGap: "12%", barMaxWidth: 120 };
  if (spec.shape === "stack") return { ...common, type: "bar", stack: "all", barCategoryGap: "12%", barMaxWidth: 120 };
  if (spec.shape === "scatter") return { ...common, type: "scatter", symbolSize: 6 };
  return { ...common, type: "line", showSymbol: spec.x.length < 3, areaStyle: spec.shape === "area" ? { color: own, opacity: 0.18 } : null };
}

function optionOf(spec) {
  const isValue = spec.shape === "scatter" || (spec.shape === "line" && !spec.is_time && spec.x.every((x) => typeof x === "number"));
  return {
    animation: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    aria: { enabled: true },
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    grid: { left: 12, right: 16, top: spec.series.length > 1 ? 36 : 16, bottom: 34, containLabel: true },
    legend: { show: spec.series.length > 1, top: 0, textStyle: { color: color("--ink") } },
    // As text, not HTML: names in a chart may come from documents.
    tooltip: { trigger: spec.shape === "scatter" ? "item" : "axis", renderMode: "richText", backgroundColor: color("--panel"), borderColor: color("--line-strong"), textStyle: { color: color("--ink") } },
    xAxis: axis(spec.x_name, spec.is_time ? { type: "time" } : isValue ? { type: "value" } : { type: "category", data: spec.x }),
    yAxis: axis(spec.y_name, { type: "value", nameLocation: "end", nameGap: 10, nameTextStyle: { color: color("--ink-2"), align: "left" } }),
    series: spec.series.map((one, number) => {
      const made = series(spec, one, number);
      if (isValue && made.type === "line") made.data = spec.x.map((x, at) => [x, one.values[at]]);
      return made;
    }),
  };
}

function draw() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    const spec = JSON.parse(document.getElementById(place.dataset.chart).textContent);
    const chart = drawn.get(place) || echarts.init(place, null, { renderer: "svg" });
    drawn.set(place, chart);
    chart.setOption(optionOf(spec), true);
  }
}

addEventListener("DOMContentLoaded", draw);
addEventListener("resize", () => drawn.forEach((chart) => chart.resize()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
