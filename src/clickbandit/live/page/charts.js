// Small pictures, drawn by hand as SVG: an interval, a line over time, a curve over positions, and batches of items that
// split over time.
// Each has a text that says the same to those who do not see it.

import {h, s} from "./dom.js";
import {chance, clock, count, counted} from "./words.js";

const COLOURS = ["vermillion", "blue", "green", "purple", "clay", "lilac", "black"];

// A batch keeps the colour of its first position, also when it splits.
export function colour(group) {
  if (group === undefined) return "var(--blue)";
  return group.first === undefined ? "var(--gray)" : `var(--${COLOURS[(group.first - 1) % COLOURS.length]})`;
}

export function swatch(paint) {
  return s("svg", {class: "swatch", viewBox: "0 0 12 12", "aria-hidden": "true"}, s("rect", {width: 12, height: 12, rx: 2, fill: paint}));
}

// A line as it is drawn, for a legend.
export function key(one) {
  return s("svg", {class: "line", viewBox: "0 0 24 8", "aria-hidden": "true"},
    s("line", {x1: 0, x2: 24, y1: 4, y2: 4, stroke: one.paint, "stroke-width": 2.5, "stroke-dasharray": one.dash}));
}

// --- an interval --------------------------------------------------------------------------------------------

// From low to high on a scale from 0 to `most`, with a mark at the estimate.
export function interval({low, high, estimate}, most, paint) {
  const at = (value) => 100 * Math.min(1, Math.max(0, value / most));
  const label = (low === undefined ? "" : `from ${chance(low)} to ${chance(high)}`) + (estimate === undefined ? "" : `, estimate ${chance(estimate)}`);
  return s("svg", {class: "interval", role: "img", "aria-label": label, viewBox: "0 0 100 14", preserveAspectRatio: "none"},
    s("line", {x1: 0, x2: 100, y1: 7, y2: 7, class: "axis"}),
    low !== undefined && s("rect", {x: at(low), width: Math.max(0.5, at(high) - at(low)), y: 3, height: 8, fill: paint, opacity: 0.45}),
    estimate !== undefined && s("rect", {x: at(estimate) - 0.5, width: 1, y: 0, height: 14, fill: paint}),
  );
}

// --- a line over time ---------------------------------------------------------------------------------------

// Lines of [x, y] points; `x` and `y` say how their values are written.
export function lines(series, {width, height = 160, x = clock, y = chance, label, floor = 0}) {
  const points = series.flatMap((one) => one.points);
  if (points.length < 2) return h("p", {class: "note"}, "There is not enough to draw yet.");
  const box = {left: 48, right: 12, top: 8, bottom: 24};
  const xs = points.map(([value]) => value);
  const from = Math.min(...xs);
  const to = Math.max(...xs, from + 1);
  const most = Math.max(...points.map(([, value]) => value), floor + 1e-9);
  const top = niceStep(most - floor, 3);
  const highest = floor + Math.ceil((most - floor) / top) * top;
  const px = (value) => box.left + ((value - from) / (to - from)) * (width - box.left - box.right);
  const py = (value) => height - box.bottom - ((value - floor) / (highest - floor)) * (height - box.top - box.bottom);
  const ticks = [];
  for (let value = floor; value <= highest + top / 2; value += top) ticks.push(value);
  return s("svg", {class: "chart", role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`},
    ticks.map((value) => [
      s("line", {class: "grid", x1: box.left, x2: width - box.right, y1: py(value), y2: py(value)}),
      s("text", {x: box.left - 6, y: py(value) + 4, "text-anchor": "end"}, y(value)),
    ]),
    s("text", {x: box.left, y: height - 6}, x(from)),
    s("text", {x: width - box.right, y: height - 6, "text-anchor": "end"}, x(to)),
    series.map((one) => s("polyline", {
      fill: "none", stroke: one.paint, "stroke-width": 2, "stroke-dasharray": one.dash, "stroke-linejoin": "round",
      points: one.points.map(([a, b]) => `${px(a).toFixed(1)},${py(b).toFixed(1)}`).join(" "),
    })),
  );
}

// A curve of estimates over positions, in the band of their intervals, from 0 to 1.
export function curve(points, {width, height = 170, label}) {
  const box = {left: 34, right: 10, top: 8, bottom: 36};
  const step = (width - box.left - box.right) / points.length;
  const px = (k) => box.left + (k + 0.5) * step;
  const py = (value) => height - box.bottom - value * (height - box.top - box.bottom);
  const line = (key) => points.map((point, k) => `${px(k).toFixed(1)},${py(point[key]).toFixed(1)}`);
  const every = Math.ceil(26 / step);
  return s("svg", {class: "chart", role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`},
    [0, 0.5, 1].map((value) => [
      s("line", {class: "grid", x1: box.left, x2: width - box.right, y1: py(value), y2: py(value)}),
      s("text", {x: box.left - 6, y: py(value) + 4, "text-anchor": "end"}, value.toFixed(1)),
    ]),
    s("polygon", {points: [...line("high"), ...line("low").reverse()].join(" "), fill: "var(--blue)", opacity: 0.25}),
    s("polyline", {points: line("estimate").join(" "), fill: "none", stroke: "var(--blue)", "stroke-width": 2, "stroke-linejoin": "round"}),
    points.map((point, k) => [
      s("line", {x1: px(k), x2: px(k), y1: py(point.low), y2: py(point.high), stroke: "var(--blue)", "stroke-width": 1}),
      s("circle", {cx: px(k), cy: py(point.estimate), r: 3.5, fill: "var(--blue)"}),
      k % every === 0 && s("text", {x: px(k), y: height - box.bottom + 17, "text-anchor": "middle"}, point.position),
    ]),
    s("text", {x: width - box.right, y: height - 4, "text-anchor": "end", class: "soft"}, "position"),
  );
}

function niceStep(span, steps) {
  const rough = span / steps;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((n) => n * power >= rough);
}

// A line without axes, for a figure beside it.
export function spark(values, paint) {
  const width = 120;
  const height = 28;
  const most = Math.max(...values, 1e-9);
  const step = width / Math.max(1, values.length - 1);
  const points = values.map((value, k) => `${(k * step).toFixed(1)},${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`);
  return s("svg", {class: "spark", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", preserveAspectRatio: "none"},
    values.length > 1 && s("polyline", {points: points.join(" "), fill: "none", stroke: paint, "stroke-width": 1.5}));
}

// --- batches over time --------------------------------------------------------------------------------------

// Items from top to bottom, impressions from left to right; each batch is an area of its colour, and what left is gone.
export function tree(frames, order, learned, width) {
  const row = 20;
  const box = {left: Math.min(170, width * 0.34), right: 8, top: 4, bottom: 36};
  const first = frames.length > 1 ? Math.max(1, frames[1].learned) : Math.max(1, learned);
  const from = Math.max(1, first / 4);
  const to = Math.max(learned, from * 8);
  const px = (n) => box.left + (Math.log(Math.max(n, from) / from) / Math.log(to / from)) * (width - box.left - box.right);
  const height = box.top + row * order.length + box.bottom;
  const place = new Map(order.map((name, k) => [name, k]));
  const areas = [];
  for (const {group, from: start, to: stop} of spans(frames, learned)) {
    if (px(stop) - px(start) < 0.5) continue;
    for (const [a, b] of runs(group.items.map((name) => place.get(name)))) {
      areas.push(s("rect", {
        x: px(start), width: px(stop) - px(start), y: box.top + a * row + 1, height: (b - a + 1) * row - 2, rx: 2,
        fill: colour(group), class: group.first === undefined ? "batch below" : "batch",
      }));
    }
  }
  const ticks = [];
  for (let power = 1; power <= to; power *= 10) {
    for (const n of [power, 2 * power, 5 * power]) {
      if (n >= from && px(n) < width - 80 && (!ticks.length || px(n) - px(ticks.at(-1)) > 60)) ticks.push(n);
    }
  }
  const labels = Math.floor(box.left / 7.2);
  const split = frames.length - 1;
  return s("svg", {
    class: "chart", role: "img", viewBox: `0 0 ${width} ${height}`,
    "aria-label": `Batches over time: ${counted(order.length, "item")}, ${counted(split, "change")}; the list below says the same in words.`,
  },
    order.map((name, k) => s("text", {x: 0, y: box.top + k * row + 14}, shorten(name, labels), s("title", {}, name))),
    areas,
    ticks.map((n) => [
      s("line", {class: "tick", x1: px(n), x2: px(n), y1: height - box.bottom, y2: height - box.bottom + 5}),
      s("text", {x: px(n), y: height - box.bottom + 17, "text-anchor": "middle"}, count(n)),
    ]),
    s("line", {class: "tick", x1: width - box.right, x2: width - box.right, y1: height - box.bottom, y2: height - box.bottom + 5}),
    s("text", {x: width - box.right, y: height - box.bottom + 17, "text-anchor": "end"}, count(learned)),
    s("text", {x: width - box.right, y: height - 4, "text-anchor": "end", class: "soft"}, "impressions learned from, logarithmic"),
  );
}

// Each batch in each of its stages, from when to when.
function spans(frames, learned) {
  const done = [];
  let open = new Map();
  for (const frame of frames) {
    const still = new Map();
    for (const group of frame.groups) {
      const key = JSON.stringify([group.first, group.last, group.stage, group.items]);
      still.set(key, open.get(key) ?? {group, from: frame.learned});
    }
    for (const [key, span] of open) if (!still.has(key)) done.push({...span, to: frame.learned});
    open = still;
  }
  return [...done, ...[...open.values()].map((span) => ({...span, to: learned}))];
}

function runs(numbers) {
  const found = [];
  for (const n of numbers.filter((n) => n !== undefined).sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last && last[1] === n - 1) last[1] = n;
    else found.push([n, n]);
  }
  return found;
}

const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
