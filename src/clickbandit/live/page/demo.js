// The demo's panel: how people come and click, what each policy makes of it, and the lists side by side.

import {post} from "./api.js";
import {key, lines} from "./charts.js";
import {h, table} from "./dom.js";
import {badge} from "./overview.js";
import {chance, count} from "./words.js";

const PAINTS = ["var(--vermillion)", "var(--green)"];
const SMOOTH = 10; // seconds that a point of the picture looks back

const MODELS = {
  CM: "They go down the list, click the first item that attracts them, and are done.",
  PBM: "They look at lower positions less often, and click every item that attracts them where they look.",
};

let settings = {};

export const address = () => "v1/stream?view=demo";
export const ACTIONS = {
  demo: async (value, control) => {
    const number = control.tagName === "INPUT";
    settings = {...settings, [control.name]: number ? Number(value) : value};
    await post("v1/demo", settings);
  },
};

export function render(state, view, width) {
  settings = state.settings;
  return [
    h("h1", {}, "A shop with simulated people"),
    h("p", {class: "lead"}, "Nobody told the service what people like: it learns that from their clicks, and its lists get better. Follow the link of a list to see what is known about its items."),
    h("section", {"aria-labelledby": "panel"}, h("h2", {id: "panel"}, "People"), panel(state), h("p", {class: "note"}, MODELS[state.settings.model])),
    h("section", {"aria-labelledby": "rates"}, h("h2", {id: "rates"}, "Clicks per impression"), picture(state, width)),
    h("section", {"aria-labelledby": "losses"}, h("h2", {id: "losses"}, "Clicks lost so far"), losses(state, width)),
    h("section", {"aria-labelledby": "lists"}, h("h2", {id: "lists"}, "Lists"), lists(state)),
  ];
}

// --- settings -----------------------------------------------------------------------------------------------

function panel({settings, window}) {
  const slider = (name, label, value, most, step, text) => h("label", {},
    h("span", {}, label, " ", h("span", {class: "value"}, text)),
    h("input", {type: "range", name, "data-action": "demo", min: 0, max: most, step, value}));
  const percent = (x) => `${Math.round(100 * x)}%`;
  return h("div", {class: "panel"},
    h("label", {}, h("span", {}, "Click model"),
      h("select", {name: "model", "data-action": "demo"}, [
        ["CM", "cascade (CM)"], ["PBM", "position-based (PBM)"],
      ].map(([value, text]) => h("option", {value, selected: settings.model === value}, text)))),
    slider("speed", "Speed", settings.speed, 600, 10, `${count(settings.speed)} people a second`),
    slider("delay", "Click delay", settings.delay, 5, 0.1, `${settings.delay.toFixed(1)} s (window ${window} s)`),
    slider("lost", "Clicks lost", settings.lost, 1, 0.05, percent(settings.lost)),
    slider("repeated", "Clicks sent twice", settings.repeated, 1, 0.05, percent(settings.repeated)));
}

// --- clicks -------------------------------------------------------------------------------------------------

const ago = (seconds) => (seconds === 0 ? "now" : `${-seconds} s ago`);

function smooth(seconds) {
  const points = [];
  for (let k = 1; k <= seconds.length; k += 1) {
    const last = seconds.slice(Math.max(0, k - SMOOTH), k);
    const impressions = last.reduce((sum, [n]) => sum + n, 0);
    if (impressions) points.push([k - seconds.length, last.reduce((sum, [, clicks]) => sum + clicks, 0) / impressions]);
  }
  return points;
}

function picture({arms, best}, width) {
  const series = arms.map((arm, k) => ({name: arm.policy, points: smooth(arm.seconds), paint: PAINTS[k]}));
  series.push({name: best.policy, points: smooth(best.seconds), paint: "var(--gray)", dash: "4 3"});
  const now = (one) => (one.points.length ? chance(one.points.at(-1)[1]) : "–");
  const least = Math.min(1, ...series.flatMap((one) => one.points.map(([, value]) => value)));
  return h("figure", {},
    h("p", {class: "tools"}, series.map((one) => h("span", {class: "key"}, key(one), ` ${one.name} `, h("strong", {}, now(one))))),
    lines(series, {width, height: 200, floor: Math.max(0, Math.floor(10 * least - 0.5) / 10), x: ago, y: (value) => value.toFixed(2), label: `Clicks per impression: ${series.map((one) => `${one.name} ${now(one)}`).join(", ")}`}),
    h("figcaption", {}, `Each point is over the last ${SMOOTH} seconds. The same people saw each policy's lists and the best ones.`));
}

// By how many clicks a policy is behind the best lists, at each of the last seconds.
function behind(arm, best) {
  let lost = best.clicks - arm.clicks;
  const points = [];
  for (let k = arm.seconds.length - 1; k >= 0; k -= 1) {
    points.unshift([k + 1 - arm.seconds.length, Math.max(0, lost)]); // by luck it may be ahead at first
    lost -= best.seconds[k][1] - arm.seconds[k][1];
  }
  return points;
}

function losses({arms, best}, width) {
  const series = arms.map((arm, k) => ({name: arm.policy, points: behind(arm, best), paint: PAINTS[k]}));
  const now = (arm) => count(best.clicks - arm.clicks);
  return h("figure", {},
    h("p", {class: "tools"}, series.map((one, k) => h("span", {class: "key"}, key(one), ` ${one.name} `, h("strong", {}, now(arms[k]))))),
    lines(series, {width, height: 160, x: ago, y: count, label: `Clicks lost so far: ${arms.map((arm) => `${arm.policy} ${now(arm)}`).join(", ")}`}),
    h("figcaption", {}, "How many more clicks the best lists would have had since the start (the regret). Where a line is flat, there is nothing left to learn."));
}

// --- lists --------------------------------------------------------------------------------------------------

function lists({arms, queries}) {
  const cell = (k) => (row) => {
    const one = row.lists[k];
    const right = one.items.filter((name, place) => name === row.best[place]).length;
    return [
      h("a", {href: `#/query/${encodeURIComponent(one.query)}`, "aria-label": `${one.state}: ${one.query}: what is known`}, badge(one.state)),
      h("small", {}, ` ${right} of ${row.best.length} in the right place`),
      h("ol", {class: "mini"}, one.items.map((name, place) => h("li", {class: name === row.best[place] && "right"}, name))),
    ];
  };
  return table("The best list known for each query", [
    ["query", {class: "name"}, (row) => row.query],
    ...arms.map((arm, k) => [h("code", {}, arm.policy), {}, cell(k)]),
    ["what people like most", {class: "extra"}, (row) => h("ol", {class: "mini"}, row.best.map((name) => h("li", {}, name)))],
  ], queries);
}
