// One query: the list, what is known of each item, how that came, and what was shown last.

import {colour, curve, interval, key, lines, swatch, tree} from "./charts.js";
import {h, table} from "./dom.js";
import {badge, comparison} from "./overview.js";
import {chance, clock, count, counted, earnings, LAWS, percent, positions, share, STATES} from "./words.js";

const MOST_ROWS = 60;
const MOST_SHOWN = 10;

export const address = ({name}) => `v1/stream?${new URLSearchParams({view: "query", query: name})}`;

export function render({detail, history}, view, width) {
  const {summary, learned} = detail;
  const frames = history.frames.filter((frame) => frame.generation === detail.generation);
  const groups = learned.groups ?? [];
  const found = {detail, groups, frames, history, items: new Map((learned.items ?? []).map((entry) => [entry.item, entry]))};
  return [
    h("p", {class: "note"}, h("a", {href: "#/"}, "← All queries")),
    h("h1", {}, summary.query, " ", badge(summary.state)),
    h("p", {class: "lead"}, STATES[summary.state], " ", nextDecision(summary, learned)),
    controls(summary, detail.freezing),
    facts(detail),
    h("div", {class: "columns"},
      h("section", {"aria-labelledby": "list"}, h("h2", {id: "list"}, summary.frozen ? "The list as shown" : "The best list known"), bestList(found)),
      learned.users
        ? h("section", {"aria-labelledby": "users"}, h("h2", {id: "users"}, "How users look"), users(learned.users, width))
        : h("section", {"aria-labelledby": "batches"}, h("h2", {id: "batches"}, "Batches"), batches(found)),
    ),
    h("section", {"aria-labelledby": "items"}, h("h2", {id: "items"}, "Items"), items(found)),
    eliminated(found),
    past(found, width),
    comparison(detail),
    cost(detail, history.points, width),
    earned(history.points, detail, width),
    impressions(history.impressions),
  ];
}

// What a reset keeps. A policy from a file cannot be named over HTTP: then it is the service's.
export function settings({detail: {summary: {policy, positions, horizon, window}}}) {
  return {...(policy.includes(".py") ? {} : {policy}), positions, horizon, window};
}

function nextDecision(summary, learned) {
  if (summary.frozen || learned.settled) return "";
  if (!learned.next_decision) return learned.groups ? "" : "Every impression can change what it shows.";
  return h("strong", {}, `At least ${counted(learned.next_decision, "impression")} to the next decision.`);
}

function controls(summary, {ready, why}) {
  const action = (name, text) => h("button", {type: "button", "data-action": name, "data-value": summary.query}, text);
  return [
    h("p", {class: "tools"},
      summary.frozen ? action("unfreeze", "Unfreeze") : action("freeze", "Freeze"),
      action("reset", "Reset …"),
      h("label", {class: "search"}, h("span", {class: "unseen"}, "Another policy"),
        h("input", {id: "other", type: "text", placeholder: "Another policy: toprank", maxlength: 200})),
      action("switch", "Switch …")),
    !summary.frozen && h("p", {id: "freezing"}, h("strong", {}, ready ? "It may be frozen. " : "Do not freeze it yet. "), why),
  ];
}

// Of a policy with a budget: how much of it is spent.
const spent = ({max_loss: most, spent: part, explored, shown_given: given}) =>
  `${percent(part)} of the ${Math.round(1000 * most) / 10}% that may be lost; ${counted(explored, "list")} explored, ${count(given)} in the given order`;

function facts({summary, generation, learned, rewards}) {
  const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h("dl", {class: "facts"},
    fact("Impressions", count(summary.impressions)),
    fact("Learned from", count(summary.learned)),
    fact(`${earnings(rewards).Name} per impression`, summary.settled ? chance(summary.reward / summary.settled) : "–"),
    fact("Late clicks", count(summary.late)),
    fact("Voided", share(summary.voided, summary.impressions)),
    fact("Policy", h("code", {}, summary.policy)),
    learned.budget && fact("Budget spent", spent(learned.budget)),
    fact("Horizon", `${count(summary.horizon)}${summary.past_horizon ? ", passed" : ""}`),
    generation > 1 && fact("Started", `${counted(generation, "time")}`));
}

const groupOf = (groups, item) => groups.find((group) => group.items.includes(item));

function bestList({detail, groups, items}) {
  if (!detail.best.length) return h("p", {}, "There are no items yet.");
  return h("ol", {class: "list"}, detail.best.map((name) => {
    const {estimate, in_place: sure} = items.get(name) ?? {};
    return h("li", {}, groups.length > 0 && swatch(colour(groupOf(groups, name))), " ", name, estimate !== undefined && h("small", {}, ` ${chance(estimate)}`),
      sure !== undefined && h("small", {}, `, belongs here: ${percent(sure)}`));
  }));
}

function batches({detail, groups, frames}) {
  const shown = groups.filter((group) => group.first !== undefined);
  if (!shown.length) return h("p", {}, `${detail.summary.policy} does not divide items into batches.`);
  return h("ul", {class: "batches"}, shown.map((group) => {
    const wait = group.at_least;
    const since = sinceWhen(frames, group);
    const done = detail.summary.learned - since;
    return h("li", {},
      swatch(colour(group)), " ", h("strong", {}, positions(group)), `: ${counted(group.items.length, "item")}`,
      group.stage !== undefined && `, stage ${group.stage}`,
      wait === undefined ? ", final" : [
        h("progress", {max: done + wait, value: done, "aria-label": `Progress of ${positions(group)} to its next test`}),
        h("small", {}, `at least ${counted(wait, "impression")} to the next test`)]);
  }));
}

// What the policy believes of those who look at its lists.
function users({examination, law, certainty, after_click: after}, width) {
  const whole = (x) => `${Math.round(100 * x)}%`;
  const between = ({estimate, low, high}) => `${whole(estimate)} (${whole(low)} to ${whole(high)})`;
  const told = examination.map((point) => `position ${point.position} ${between(point)}`).join(", ");
  return [
    h("p", {}, law === undefined ? "Nothing was clicked above another item yet, so what users do after a click is not known."
      : [LAWS[law], ` The policy is ${percent(certainty)} sure of that.`]),
    h("figure", {}, curve(examination, {width: width > 760 ? width / 2 - 16 : width, label: `How often a position is looked at: ${told}`}),
      h("figcaption", {}, "How often each position is looked at while nothing above was clicked, compared with the first, and in what range that probably lies.",
        after && ` After a click users look at ${between(after)} of that.`)),
  ];
}

// When this batch began to be in this stage, in impressions learned from.
function sinceWhen(frames, group) {
  const same = (other) => other.first === group.first && other.last === group.last && other.stage === group.stage && other.items.length === group.items.length;
  let since = frames.at(-1)?.learned ?? 0;
  for (const frame of [...frames].reverse()) {
    if (!frame.groups.some(same)) break;
    since = frame.learned;
  }
  return since;
}

// In the order of the list: by batch, the best first.
function ordered({groups, items, detail}) {
  const best = new Map(detail.best.map((name, k) => [name, k]));
  const rank = (name) => best.get(name) ?? detail.best.length + 1 - (items.get(name)?.estimate ?? 0);
  const inside = groups.flatMap((group) => [...group.items].sort((a, b) => rank(a) - rank(b)));
  const rest = detail.items.filter((name) => !inside.includes(name)).sort((a, b) => rank(a) - rank(b));
  return [...inside, ...rest];
}

function items(found) {
  const {groups, items: known, detail} = found;
  const rows = ordered(found).filter((name) => !known.get(name)?.eliminated)
    .map((name) => ({name, group: groupOf(groups, name), ...known.get(name)}));
  const most = Math.max(0.01, ...rows.map((row) => Math.max(row.high ?? 0, row.estimate ?? 0)));
  const has = (key) => rows.some((row) => row[key] !== undefined);
  const top = Math.ceil(most * 20) / 20;
  const staged = groups.some((group) => group.stage !== undefined);
  return [table("Items with their estimates and confidence intervals", [
    groups.length > 0 && ["batch", {}, (row) => [swatch(colour(row.group)), " ", row.group ? positions(row.group).replace(/positions? /, "") : "–"]],
    ["item", {class: "name"}, (row) => row.name],
    has("estimate") && ["estimate", {class: has("in_list") ? "number extra" : "number"}, (row) => chance(row.estimate)],
    (has("low") || has("estimate")) && [`interval, 0 to ${top}`, {class: "bar"}, (row) => interval(row, top, colour(row.group))],
    has("low") && ["from", {class: "number extra"}, (row) => chance(row.low)],
    has("low") && ["to", {class: "number extra"}, (row) => chance(row.high)],
    has("in_list") && ["belongs in the list", {class: "number"}, (row) => percent(row.in_list)],
    has("observed") && ["observed", {class: "number extra"}, (row) => count(row.observed ?? 0)],
    ...lately(found.history),
  ].filter(Boolean), rows.slice(0, MOST_ROWS)), rest(rows), found.history.counted > 0 && h("p", {class: "note"},
    `Shown, clicked and rate are counted over the last ${counted(found.history.counted, "settled impression")}, whatever made the list.`), detail.rewards && h("p", {class: "note"},
    `Events are worth ${detail.rewards}. A policy learns from a yes or no for each item, which chance makes of rewards: estimates are shares of the largest reward.`), staged && h("p", {class: "note"},
    "Intervals are those of the last test; estimates count all clicks so far, including those at other positions."), has("in_list") && h("p", {class: "note"},
    "Estimates are of attraction: the share of those who look at an item and click it. Intervals shrink as it is looked at. “Belongs in the list” is the probability that the item is among the most attractive.")];
}

// Counted for every policy alike.
function lately({counted: n, counts}) {
  const by = new Map(counts.map((one) => [one.item, one]));
  const of = ({name}) => by.get(name) ?? {impressions: 0, clicks: 0};
  return n === 0 ? [] : [
    ["shown", {class: "number extra"}, (row) => count(of(row).impressions)],
    ["clicked", {class: "number extra"}, (row) => count(of(row).clicks)],
    ["rate", {class: "number"}, (row) => share(of(row).clicks, of(row).impressions)],
  ];
}

function eliminated({items: known, history}) {
  const rows = [...known.values()].filter((entry) => entry.eliminated).map((entry) => ({item: entry.item, ...history.evidence[entry.item]}));
  if (!rows.length) return null;
  const measured = rows.some((row) => row.estimate !== undefined);
  rows.sort((a, b) => (b.learned ?? 0) - (a.learned ?? 0));
  return h("section", {"aria-labelledby": "out"}, h("h2", {id: "out"}, "Out"),
    h("p", {class: "note"}, "These items are no longer shown. What was known of them when they left:"),
    table("Eliminated items with the evidence at that moment", [
      ["item", {class: "name"}, (row) => row.item],
      ["after impressions", {class: "number"}, (row) => (row.learned === undefined ? "–" : count(row.learned))],
      measured && ["estimate", {class: "number"}, (row) => chance(row.estimate)],
      measured && ["interval", {class: "number"}, (row) => (row.low === undefined ? "–" : `${chance(row.low)}–${chance(row.high)}`)],
      measured && ["from observations", {class: "number extra"}, (row) => (row.observed === undefined ? "–" : count(row.observed))],
      measured && ["items above that", {class: "number extra"}, (row) => (row.worse_than === undefined ? "–" : count(row.worse_than))],
    ].filter(Boolean), rows.slice(0, MOST_ROWS)), rest(rows));
}

const rest = (rows) => rows.length > MOST_ROWS && h("p", {class: "note"}, `The first ${MOST_ROWS} of ${count(rows.length)}.`);

// --- history ------------------------------------------------------------------------------------------------

function past(found, width) {
  const {frames, detail} = found;
  if (!frames.length || !frames.some((frame) => frame.groups.length)) return null;
  const left = [];
  for (const frame of frames) for (const name of frame.eliminated) if (!left.includes(name)) left.unshift(name);
  const order = ordered(found).filter((name) => !left.includes(name)).concat(left.filter((name) => detail.items.includes(name)));
  const shown = order.slice(0, MOST_ROWS);
  return h("section", {"aria-labelledby": "past"}, h("h2", {id: "past"}, "How it got here"),
    h("figure", {}, legend(frames), tree(frames, shown, detail.summary.learned, width),
      h("figcaption", {}, "Each batch is an area in its colour. Where one area ends and several begin, a batch was split; an item whose row ends was eliminated.",
        order.length > shown.length && ` The first ${shown.length} of ${count(order.length)} items.`)),
    h("ol", {class: "events", tabindex: 0, "aria-label": "What happened, the latest first"}, events(frames).slice(-30).reverse().map((event) =>
      h("li", {}, h("time", {datetime: event.at}, `${clock(event.at)}, after ${count(event.learned)}: `), event.text))));
}

// What the colours are of.
function legend(frames) {
  const firsts = [...new Set(frames.flatMap((frame) => frame.groups.map((group) => group.first)))].sort((a, b) => (a ?? Infinity) - (b ?? Infinity));
  return h("p", {class: "tools"}, firsts.map((first) => h("span", {class: "key"}, swatch(colour({first})),
    first === undefined ? " not shown" : ` batch from position ${first}`)));
}

// What happened between one frame and the next, in words.
export function events(frames) {
  const found = [];
  frames.forEach((frame, k) => {
    const say = (text) => found.push({at: frame.at, learned: frame.learned, text});
    const before = frames[k - 1];
    if (!before) return say(k === 0 && frame.learned === 0 ? `learning started with ${counted(frame.groups.flatMap((g) => g.items).length, "item")}` : "the first that is remembered");
    if (frame.frozen !== before.frozen) say(frame.frozen ? "frozen" : "unfrozen");
    const all = (one) => new Set([...one.groups.flatMap((group) => group.items), ...one.eliminated]);
    const [now, then] = [all(frame), all(before)];
    const names = (list) => (list.length > 3 ? `${list.slice(0, 3).join(", ")} and ${list.length - 3} more` : list.join(", "));
    const entered = [...now].filter((name) => !then.has(name));
    const gone = [...then].filter((name) => !now.has(name));
    if (entered.length) say(`new: ${names(entered)}`);
    if (gone.length) say(`removed: ${names(gone)}`);
    const out = frame.eliminated.filter((name) => !before.eliminated.includes(name));
    if (out.length) say(`eliminated: ${names(out)}`);
    const shown = (one) => one.groups.filter((group) => group.first !== undefined).flatMap((group) => group.items);
    const down = shown(before).filter((name) => now.has(name) && !out.includes(name) && !shown(frame).includes(name));
    if (down.length) say(`no longer shown: ${names(down)}`);
    const said = found.length;
    for (const old of before.groups.filter((group) => group.first !== undefined)) {
      const parts = frame.groups.filter((group) => group.first >= old.first && group.last <= old.last);
      if (parts.length > 1) say(`${positions(old)} split into ${parts.map((part) => positions(part).replace(/positions? /, "")).join(", ")}`);
      else if (parts.length === 1 && parts[0].last === old.last && parts[0].stage > old.stage) say(`${positions(old)}: not told apart yet, on to stage ${parts[0].stage}`);
    }
    const places = (one) => one.groups.filter((group) => group.first !== undefined).map((group) => positions(group).replace(/positions? /, "")).join(", ");
    if (found.length === said && places(frame) !== places(before)) say(`batches are now ${places(frame)}`);
  });
  return found;
}

const known = (points, summary) => {
  const last = {at: Date.parse(summary.updated_at), settled: summary.settled, reward: summary.reward};
  const all = points.map((point) => ({...point, at: Date.parse(point.at)}));
  return all.length && summary.settled > all.at(-1).settled ? [...all, last] : all;
};

// --- what exploring cost ------------------------------------------------------------------------------------

// Clicks that the best list known gets from an impression, by what the policy believes of items and users.
function promised({best, learned}) {
  const by = new Map((learned.items ?? []).map((entry) => [entry.item, entry.estimate]));
  if (!learned.users || best.some((name) => by.get(name) === undefined)) return null;
  const after = learned.users.after_click?.estimate ?? 1;
  let [clicks, none] = [0, 1]; // so far, and the chance that there was none
  best.forEach((name, k) => {
    const chance = (learned.users.examination[k]?.estimate ?? 0) * by.get(name);
    clicks += chance * (none + (1 - none) * after);
    none *= 1 - chance;
  });
  return clicks;
}

// What the last quarter of all impressions got: by then most policies show little else than what they hold for the best.
function lately_got(all) {
  const last = all.at(-1);
  const from = all.findLast((point) => point.settled <= 0.75 * last.settled) ?? all[0];
  return last.settled > from.settled ? (last.reward - from.reward) / (last.settled - from.settled) : null;
}

// A line a + b ln(n) through the later points: a policy that learns loses less and less.
function growth(points) {
  const some = points.filter(([n]) => n >= points.at(-1)[0] / 8).map(([n, lost]) => [Math.log(n), lost]);
  const mean = (k) => some.reduce((sum, one) => sum + one[k], 0) / some.length;
  const [x, y] = [mean(0), mean(1)];
  const spread = some.reduce((sum, [a]) => sum + (a - x) ** 2, 0);
  return spread > 0 ? Math.max(0, some.reduce((sum, [a, b]) => sum + (a - x) * (b - y), 0) / spread) : 0;
}

function cost(detail, points, width) {
  const {summary, learned, rewards} = detail;
  const all = known(points, summary).filter((point) => point.settled > 0);
  const believed = rewards ? null : promised(detail); // what it believes is of a yes or no, not of rewards
  const best = believed ?? (all.length ? lately_got(all) : null);
  const title = h("h2", {id: "cost"}, "What exploring cost");
  if (best === null || all.length < 2 || summary.settled < 100) {
    return h("section", {"aria-labelledby": "cost"}, title, h("p", {class: "note"}, "There are too few impressions yet to tell."));
  }
  const lost = all.map(({settled, reward}) => [settled, Math.max(0, best * settled - reward)]);
  const [n, now] = lost.at(-1);
  const luck = rewards ? "" : `, give or take ${count(Math.round(2 * Math.sqrt(Math.max(1, summary.clicks))))} by chance`;
  const done = summary.frozen || learned.settled;
  const slope = done ? 0 : growth(lost);
  const ahead = [1, 1.25, 1.5, 1.75, 2].map((times) => [times * n, now + slope * Math.log(times)]);
  const {name, Name} = earnings(rewards);
  const whole = (value) => (rewards ? `${count(Math.round(value))} ${name}` : counted(Math.round(value), "click"));
  const more = done ? "No more will be lost: the list does not change." : `Another ${whole(ahead.at(-1)[1] - now)} may be lost by ${count(2 * n)} impressions, if learning goes on as it did.`;
  return h("section", {"aria-labelledby": "cost"}, title,
    h("p", {}, h("strong", {}, `About ${whole(now)} so far`), `${luck}. ${more}`),
    h("figure", {},
      h("p", {class: "tools"}, [["so far", ""], ["expected", "4 3"]].map(([name, dash]) => h("span", {class: "key"}, key({paint: "var(--vermillion)", dash}), ` ${name}`))),
      lines([{points: lost, paint: "var(--vermillion)"}, {points: ahead, paint: "var(--vermillion)", dash: "4 3"}],
        {width, x: (value) => `${count(Math.round(value))} impressions`, y: (value) => count(Math.round(value)), label: `${Name} lost by exploring: ${count(Math.round(now))} so far. ${more}`}),
      h("figcaption", {}, `How ${rewards ? "much" : "many"} more ${name} the best list known now would have had. It is assumed to get ${chance(best)} per impression, `,
        believed === null ? "as in the last quarter of all impressions." : "which is what the policy believes of its items and users.")));
}

function earned(points, {summary, rewards}, width) {
  const all = known(points, summary);
  const {Name} = earnings(rewards);
  const line = [];
  for (let k = 1; k < all.length; k += 1) {
    const settled = all[k].settled - all[k - 1].settled;
    if (settled >= 20) line.push([all[k].at, (all[k].reward - all[k - 1].reward) / settled]);
  }
  return h("section", {"aria-labelledby": "rates"}, h("h2", {id: "rates"}, `${Name} per impression over time`),
    lines([{points: line, paint: "var(--blue)"}], {width, label: `${Name} per impression over time, ${line.length ? `now ${chance(line.at(-1)[1])}` : "nothing yet"}`}));
}

function list({items, clicked}) {
  const below = items.slice(MOST_SHOWN);
  const also = below.filter((name) => clicked.includes(name)).length;
  return h("ol", {},
    items.slice(0, MOST_SHOWN).map((name) => h("li", {class: clicked.includes(name) && "clicked"}, name, clicked.includes(name) && h("span", {class: "unseen"}, " (clicked)"))),
    below.length > 0 && h("li", {}, `and ${below.length} more${also ? `, ${also} clicked` : ""}`));
}

function impressions(rows) {
  return h("section", {"aria-labelledby": "last"}, h("h2", {id: "last"}, "Last impressions"),
    rows.length === 0 ? h("p", {}, "None of the service's last 20,000 impressions are of this query.") : table("Last impressions", [
      ["time", {class: "when"}, (row) => clock(row.at)],
      ["list", {class: "shown"}, list],
      ["made by", {class: "extra"}, (row) => row.source],
      ["outcome", {}, (row) => row.outcome],
    ], rows));
}
