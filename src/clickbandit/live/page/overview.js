// All queries: how much goes on, whether it pays, and each query with its state.

import {curve, interval, spark} from "./charts.js";
import {h, table} from "./dom.js";
import {ago, chance, count, counted, earnings, rate, share, signed, STATES} from "./words.js";

const SAMPLES = 120;
const LIMIT = 50;
let samples = [];

export const start = () => (samples = []);

export function address(view) {
  const parameters = new URLSearchParams({view: "overview", limit: LIMIT, sort: view.sort, descending: view.descending, offset: view.offset});
  if (view.search) parameters.set("search", view.search);
  if (view.state) parameters.set("state", view.state);
  return `v1/stream?${parameters}`;
}

export const initial = () => ({search: "", state: "", sort: "impressions", descending: true, offset: 0});

export function render({stats, page, asked}, view) {
  remember(stats);
  return [
    h("h1", {}, "What is being learned"),
    figures(stats),
    comparison(stats),
    shared(stats.shared),
    h("h2", {id: "queries"}, "Queries"),
    stats.sure > 0 && h("p", {class: "note"}, `${counted(stats.sure, "query", "queries")} may be frozen: the list is final, or the policy is 95% sure of all of it.`),
    filters(stats, view),
    page.total === 0 ? h("p", {}, stats.queries === 0
      ? "No query has been asked for yet: POST /v1/rank makes the first."
      : "No query matches.") : queries(page, view, stats.rewards),
    pager(page, view, asked.offset),
    help(),
  ];
}

// --- figures ------------------------------------------------------------------------------------------------

function remember(stats) {
  const last = samples.at(-1);
  const now = performance.now();
  if (last && last.impressions === stats.impressions && now - last.at < 500) return;
  samples.push({at: now, impressions: stats.impressions, clicks: stats.clicks});
  samples = samples.slice(-SAMPLES);
}

function rates(name) {
  return samples.slice(1).map((sample, k) => (1000 * (sample[name] - samples[k][name])) / (sample.at - samples[k].at));
}

// The last five seconds, so that the figure can be read.
function current(name) {
  const last = samples.at(-1);
  const first = samples.findLast((sample) => last.at - sample.at >= 4500) ?? samples[0];
  return last.at > first.at ? (1000 * (last[name] - first[name])) / (last.at - first.at) : null;
}

function figure(name, value, note, picture) {
  return h("div", {class: "figure"}, h("dt", {}, name), h("dd", {}, h("strong", {}, value), picture, h("small", {}, note)));
}

const waiting = (n) => `${counted(n, "impression")} ${n === 1 ? "waits" : "wait"} for clicks`;

function figures(stats) {
  const clicks = stats.clicks + stats.late;
  return h("dl", {class: "figures"},
    figure("Impressions a second", rate(current("impressions")), `${count(stats.impressions)} in all`, spark(rates("impressions"), "var(--blue)")),
    figure("Clicks a second", rate(current("clicks")), `${count(stats.clicks)} in all`, spark(rates("clicks"), "var(--vermillion)")),
    stats.rewards && figure("Reward per impression", stats.settled ? chance(stats.reward / stats.settled) : "–", stats.rewards),
    figure("Settled", share(stats.settled, stats.impressions), waiting(stats.impressions - stats.settled - stats.voided)),
    figure("Late clicks", share(stats.late, clicks), `${count(stats.late)} came after settlement`),
    figure("Voided", share(stats.voided, stats.impressions), `${counted(stats.voided, "impression")} never seen`),
  );
}

// What new queries start from, as the others taught it.
function shared({queries: teachers, curve: places, examination}) {
  const whole = (x) => `${Math.round(100 * x)}%`;
  const told = (points) => points.map(({position, estimate, low, high}) => `${position}: ${whole(estimate)} (${whole(low)} to ${whole(high)})`).join(", ");
  const figureOf = (points, label, caption) => points.length > 0 && h("figure", {class: "small"},
    curve(points, {width: 420, label: `${label} ${told(points)}`}), h("figcaption", {}, caption));
  return (places.length > 0 || examination.length > 0) && h("section", {"aria-labelledby": "shared"},
    h("h2", {id: "shared"}, "What new queries start from"),
    h("p", {}, `Learned from ${counted(teachers, "query", "queries")}; each query takes it once, when it starts.`),
    h("div", {class: "pair"}, figureOf(places, "Attraction by place in the given order:", "How attractive items are by their place in the given order, with the range in which the mean over queries probably lies."),
    figureOf(examination, "How often a position is looked at:", "How often each position is looked at while nothing above was clicked, compared with the first.")));
}

const verdict = ({low, high}, {name, fewer}) => (low > 0 ? `lists made here get more ${name}.` : high < 0 ? `lists made here get ${fewer}.` : "not yet told from chance.");

// A comparison of a day or a week, which has an error of its own.
function period(name, holdout, earned) {
  if (!holdout) return h("li", {}, `${name}: too few clicks yet to compare.`);
  const {mean, low, high} = holdout.difference;
  return h("li", {}, `${name}: ${signed(mean)}, ${signed(low)} to ${signed(high)}: `, verdict(holdout.difference, earned));
}

// All time, the week and the day, of a query or of all.
export function comparison({holdout, holdout_week: week, holdout_today: today, rewards}) {
  if (!holdout) {
    return h("p", {class: "note"}, "Nothing to compare with yet. ", h("code", {}, "clickbandit serve --holdout 0.05"),
      " shows the given order to 5% of impressions; once both sides have 20 clicks, they are compared here.");
  }
  const {treated, held_out, difference, unit} = holdout;
  const earned = earnings(rewards);
  const most = 1.1 * Math.max(treated.per_impression.high, held_out.per_impression.high);
  const arm = (name, one, paint) => h("tr", {},
    h("th", {scope: "row"}, name),
    h("td", {class: "number"}, chance(one.per_impression.mean)),
    h("td", {class: "bar"}, interval({...one.per_impression, estimate: one.per_impression.mean}, most, paint)),
    h("td", {class: "number"}, count(one.impressions)),
    unit === "user" && h("td", {class: "number"}, count(one.units)));
  const relative = held_out.per_impression.mean > 0 ? ` (${signed(difference.mean / held_out.per_impression.mean * 100).replace(/\.\d+$/, "")}%)` : "";
  return h("section", {"aria-labelledby": "holdout"},
    h("h2", {id: "holdout"}, "Against the given order"),
    h("p", {}, h("strong", {}, `${signed(difference.mean)} ${earned.name} per impression${relative}`),
      `, 95% interval ${signed(difference.low)} to ${signed(difference.high)} however often you look: `, verdict(difference, earned)),
    h("ul", {}, period("This week", week, earned), period("Today (UTC)", today, earned)),
    h("div", {class: "wide", tabindex: 0, role: "group", "aria-label": "Comparison"}, h("table", {class: "arms"},
      h("caption", {class: "unseen"}, `${earned.Name} per impression with 95% intervals`),
      h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "lists"), h("th", {scope: "col", class: "number"}, `${earned.name} per impression`),
        h("th", {scope: "col"}, "95% interval"), h("th", {scope: "col", class: "number"}, "impressions"),
        unit === "user" && h("th", {scope: "col", class: "number"}, "users"))),
      h("tbody", {}, arm("made here", treated, "var(--blue)"), arm("held out, as given", held_out, "var(--gray)")))));
}

// --- queries ------------------------------------------------------------------------------------------------

export const badge = (state) => h("span", {class: `state ${state}`, title: STATES[state]}, state);

function filters(stats, view) {
  const chip = (state, name, n) => h("button", {type: "button", "data-action": "state", "data-value": state, "aria-pressed": String(view.state === state)},
    name, " ", h("span", {class: "n"}, count(n)));
  return h("div", {class: "tools", role: "search"},
    h("label", {class: "search"}, h("span", {class: "unseen"}, "Search queries"),
      h("input", {type: "search", id: "search", placeholder: "Search queries", value: view.search, maxlength: 200})),
    chip("", "all", stats.queries),
    Object.keys(STATES).map((state) => chip(state, state, stats.states[state] ?? 0)));
}

function queries(page, view, rewards) {
  const sortable = (key, name) => {
    const on = view.sort === key;
    const way = on ? (view.descending ? "descending" : "ascending") : "none";
    return [h("button", {type: "button", class: "sort", "data-action": "sort", "data-value": key}, name,
      h("span", {"aria-hidden": "true"}, on ? (view.descending ? " ↓" : " ↑") : "")), {"aria-sort": way}];
  };
  const column = (key, name, kind, cell) => {
    const [heading, attributes] = sortable(key, name);
    return [heading, {...attributes, class: kind}, cell];
  };
  const one = (row) => `#/query/${encodeURIComponent(row.query)}`;
  return table("Queries", [
    column("query", "query", "name", (row) => [h("a", {href: one(row)}, row.query), h("div", {class: "narrow"}, badge(row.state))]),
    ["state", {class: "extra"}, (row) => [badge(row.state), row.past_horizon && h("span", {class: "mark", title: "More was learned from than the horizon; learning goes on"}, " past horizon")]],
    column("impressions", "impressions", "number", (row) => count(row.impressions)),
    [`${earnings(rewards).name} per impression`, {class: "number"}, (row) => (row.settled ? chance(row.reward / row.settled) : "–")],
    column("clicks", "clicks", "number extra", (row) => count(row.clicks)),
    ["late", {class: "number extra"}, (row) => count(row.late)],
    ["items", {class: "number extra"}, (row) => count(row.items)],
    ["policy", {class: "extra"}, (row) => h("code", {}, row.policy)],
    column("updated", "last shown", "number extra", (row) => ago(row.updated_at)),
  ], page.queries);
}

// The buttons go by what is wanted, the text by the rows that are there: `first` is the offset they were asked for with.
function pager(page, view, first) {
  if (page.total <= LIMIT && view.offset === 0) return h("p", {class: "note", role: "status"}, counted(page.total, "query", "queries"));
  const step = (name, offset, able) => h("button", {type: "button", "data-action": "page", "data-value": offset, disabled: !able}, name);
  return h("nav", {class: "tools", "aria-label": "Pages of queries"},
    step("← Previous", Math.max(0, view.offset - LIMIT), view.offset > 0),
    h("span", {}, page.total ? `${count(Math.min(first + 1, page.total))}–${count(Math.min(first + LIMIT, page.total))} of ${count(page.total)}` : "0 of 0"),
    step("Next →", view.offset + LIMIT, view.offset + LIMIT < page.total));
}

function help() {
  return h("details", {id: "states"}, h("summary", {}, "What the states mean"),
    h("dl", {class: "help"}, Object.entries(STATES).map(([state, text]) => [h("dt", {}, badge(state)), h("dd", {}, text)])));
}
