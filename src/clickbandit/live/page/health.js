// The service itself: how quick, how sound, how large, and whether clicks come in time.

import {h, table} from "./dom.js";
import {ago, bytes, count, counted, duration, share} from "./words.js";

export const address = () => "v1/stream?view=health";

const ms = (seconds) => `${seconds < 0.01 ? (1000 * seconds).toFixed(1) : count(Math.round(1000 * seconds))} ms`;

export function render(health) {
  const {operations} = health;
  return [
    h("h1", {}, "Health"),
    h("p", {class: "lead"}, verdict(health)),
    h("h2", {}, "Latency"),
    health.latency.length === 0 ? h("p", {}, "No request has been answered yet.") : table("Latency of the last requests to each endpoint", [
      ["endpoint", {class: "name"}, (row) => h("code", {}, row.endpoint)],
      ["half within", {class: "number"}, (row) => ms(row.median)],
      ["99% within", {class: "number"}, (row) => ms(row.most)],
      ["of the last", {class: "number extra"}, (row) => count(row.requests)],
    ], health.latency),
    health.expected_workers > 1 ? h("p", {class: "note"}, "Of all workers together.") : "",
    h("h2", {}, "Errors"),
    facts([
      ...(health.expected_workers > 1 ? [["Workers that answer", `${count(health.workers.length)} of ${count(health.expected_workers)}`]] : []),
      ["Requests answered", count(health.requests)],
      ["Refused (4xx)", `${count(health.refused)} (${share(health.refused, health.requests)})`],
      ["Failed (5xx)", `${count(health.failed)} (${share(health.failed, health.requests)})`],
      ["Failures of the store", count(operations.failures)],
      ["Lists in the given order instead", count(health.fallbacks)],
    ]),
    h("h2", {}, "Store"),
    facts([
      ["Size", bytes(operations.store_bytes)],
      ["Kept after settlement", duration(operations.retention)],
      ["Oldest impression kept", operations.oldest_at ? ago(operations.oldest_at) : "–"],
      ["Rows pruned", `${count(operations.pruned)} since the service started`],
    ]),
    h("h2", {}, "Clicks in time"),
    h("p", {}, advice(operations)),
    facts([
      ["Window", duration(operations.window)],
      ...["accepted", "duplicate", "late", "unknown", "invalid"].map((verdict) => [`Events ${verdict}`, count(operations.events[verdict] ?? 0)]),
    ]),
    h("p", {class: "note"}, "Unknown events name an impression that never existed or was pruned. Counts are since the service started."),
  ];
}

function facts(pairs) {
  return h("dl", {class: "facts"}, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function verdict({failed, fallbacks, operations, workers, expected_workers}) {
  if (workers.length < expected_workers) return h("span", {class: "bad"}, `${count(expected_workers - workers.length)} of ${counted(expected_workers, "worker")} ${expected_workers - workers.length === 1 ? "does" : "do"} not answer.`);
  if (operations.failures || fallbacks) return h("span", {class: "bad"}, `The store failed ${counted(operations.failures, "time")}: the service's log says why.`);
  if (failed) return h("span", {class: "bad"}, `${counted(failed, "request")} failed: the service's log says why.`);
  if (operations.delays?.suggested) return "Requests and the store are fine, but many clicks come too late to be learned from.";
  return h("span", {class: "good"}, "All is well.");
}

function advice({delays, window}) {
  if (!delays) return "No clicks have come yet.";
  const came = `Of the last ${counted(delays.clicks, "click")} half came within ${duration(delays.median)} and 99% within ${duration(delays.most)} of their lists; ${count(delays.late)} (${share(delays.late, delays.clicks)}) were late.`;
  return [came, " ", delays.suggested
    ? h("strong", {}, `A window of ${duration(delays.suggested)} would have caught 99% of them; it is ${duration(window)}.`)
    : `The window of ${duration(window)} is long enough.`];
}
