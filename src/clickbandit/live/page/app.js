// The page: which view is open, what it follows, and what its buttons do.

import {follow, load, onKeyNeeded, post} from "./api.js";
import * as demo from "./demo.js";
import {fill, h} from "./dom.js";
import * as health from "./health.js";
import * as overview from "./overview.js";
import * as query from "./query.js";
import {clock, count, counted} from "./words.js";

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const VIEWS = {overview, query, health, demo};

let view = {name: "", state: null};
let data = null;
let stop = () => {};

// --- views --------------------------------------------------------------------------------------------------

function route() {
  const [, name, rest] = /^#\/(\w*)\/?(.*)$/.exec(location.hash) ?? [null, "", ""];
  if (name === "query") return {name, state: {name: decodeURIComponent(rest)}, title: decodeURIComponent(rest)};
  if (name === "health") return {name, state: null, title: "Health"};
  if (name === "demo") return {name, state: null, title: "Demo"};
  return {name: "overview", state: overview.initial(), title: "Overview"};
}

function open() {
  view = route();
  document.title = `${view.title} · clickbandit`;
  document.querySelectorAll("#views a").forEach((link) => {
    if (link.dataset.view === view.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  data = null;
  VIEWS[view.name].start?.();
  fill(main, [h("p", {class: "note"}, "Loading …")]);
  scrollTo(0, 0);
  listen();
}

function listen() {
  stop();
  if (document.hidden) return;
  const asked = {...view.state};
  stop = follow(VIEWS[view.name].address(view.state), {
    data(value) {
      data = {...value, asked};
      draw();
    },
    problem(text) {
      fill(main, [h("h1", {}, view.title), h("p", {class: "bad", role: "alert"}, text), h("p", {}, h("a", {href: "#/"}, "← All queries"))]);
    },
    connected: say,
  });
}

function draw() {
  if (data === null) return;
  const nodes = VIEWS[view.name].render(data, view.state, Math.max(280, main.clientWidth));
  fill(main, nodes.flat().filter(Boolean));
}

// Said once when it changes: a screen reader reads it out.
function say(connected) {
  const state = connected ? "live" : "lost";
  if (connection.dataset.state === state) return;
  connection.dataset.state = state;
  connection.textContent = connected ? "Live" : `Connection lost at ${clock(Date.now())}. What you see is from then. Trying again …`;
}

// --- what people do -----------------------------------------------------------------------------------------

function look(change) {
  Object.assign(view.state, change);
  listen();
  draw();
}

const ACTIONS = {
  state: (value) => look({state: value, offset: 0}),
  page: (value) => look({offset: Number(value)}),
  sort: (value) => look({sort: value, offset: 0, descending: view.state.sort === value ? !view.state.descending : value !== "query"}),
  freeze: (name) => change(name, "freeze", `Freeze “${name}”?`, "It will show the best list known now, to everyone, and learn nothing until it is unfrozen.", "Freeze"),
  unfreeze: (name) => change(name, "unfreeze", `Unfreeze “${name}”?`, "It continues to learn from where it was.", "Unfreeze"),
  reset: (name) => change(name, "reset", `Reset “${name}”?`, "Everything learned about it is forgotten, and it starts afresh with the same settings. This cannot be undone.", "Reset", query.settings(data)),
  switch: (name) => switchPolicy(name),
  ...demo.ACTIONS,
};

// Says first what another policy would show after the same clicks.
async function switchPolicy(name) {
  const policy = document.getElementById("other").value.trim();
  const settings = {...query.settings(data), ...(policy && {policy})};
  const address = `v1/queries/${encodeURIComponent(name).replaceAll(".", "%2E")}`;
  try {
    const found = await post(`${address}/preview`, {policy: settings.policy});
    const shown = found.learned ? `After the same clicks, ${found.policy} would show ${found.best.join(", ")}.` : `${found.policy} would know nothing yet.`;
    const learned = `It could learn from ${counted(found.learned, "list")} of ${count(found.of)} that are kept; what was learned until now is replaced.`;
    if (!(await ask(`Switch “${name}” to ${found.policy}?`, `${shown} ${learned}`, "Switch"))) return;
    await post(`${address}/reset`, {...settings, replay: true});
    listen();
  } catch (error) {
    await ask("That did not work", `${error.message}`, "Close");
  }
}

async function change(name, what, question, explanation, yes, body) {
  if (!(await ask(question, explanation, yes))) return;
  try {
    await post(`v1/queries/${encodeURIComponent(name).replaceAll(".", "%2E")}/${what}`, body);
    listen();
  } catch (error) {
    await ask("That did not work", `${error.message}`, "Close");
  }
}

main.addEventListener("click", (event) => {
  const button = event.target.closest("[data-action]");
  if (button && button.tagName === "BUTTON") ACTIONS[button.dataset.action]?.(button.dataset.value, button);
});
main.addEventListener("change", (event) => {
  const control = event.target.closest("[data-action]");
  if (control && control.tagName !== "BUTTON") ACTIONS[control.dataset.action]?.(control.value, control);
});
let typing;
main.addEventListener("input", (event) => {
  if (event.target.id !== "search") return;
  clearTimeout(typing);
  typing = setTimeout(() => view.name === "overview" && look({search: event.target.value.trim(), offset: 0}), 250);
});

// --- questions ----------------------------------------------------------------------------------------------

const dialog = document.getElementById("dialog");
const part = (id) => document.getElementById(id);

function ask(question, explanation, yes, wantsKey = false) {
  part("question").textContent = question;
  part("explanation").textContent = explanation;
  part("yes").textContent = yes;
  part("no").hidden = yes === "Close";
  part("key").hidden = !wantsKey;
  const input = part("key").querySelector("input");
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  (wantsKey ? input : part(yes === "Close" ? "yes" : "no")).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" && (wantsKey ? input.value : true)), {once: true});
  });
}
part("answer").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.tagName === "INPUT") {
    event.preventDefault();
    dialog.close("yes");
  }
});

onKeyNeeded((known) => ask("API key", `${known ? "That key was refused. " : ""}This service asks for an API key. It is kept until this tab is closed.`, "Use it", true));

// --- begin --------------------------------------------------------------------------------------------------

addEventListener("hashchange", () => {
  open();
  main.focus({preventScroll: true}); // so that a screen reader and the next Tab go on there
});
document.addEventListener("visibilitychange", listen);
let width = innerWidth;
addEventListener("resize", () => innerWidth !== width && ((width = innerWidth), draw()));
open();
load("page/info.json").then((info) => {
  document.querySelector('[data-view="demo"]').hidden = !info.demo;
  if (info.demo && location.hash === "") location.hash = "#/demo";
});
