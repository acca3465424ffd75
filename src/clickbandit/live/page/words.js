// Numbers, times and states in words.

const whole = new Intl.NumberFormat("en");
export const count = (n) => whole.format(n);
export const counted = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;
export const share = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(part === all || part === 0 ? 0 : 1)}%` : "–");
export const rate = (n) => (n === null ? "–" : n >= 100 ? count(Math.round(n)) : n.toFixed(n >= 10 ? 0 : 1));
export const chance = (x) => (x === undefined || x === null || Number.isNaN(x) ? "–" : x.toFixed(3));
export const signed = (x) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(3);

// What lists earn, by the setting rewards: clicks unless it says more.
export const earnings = (rewards) => (rewards ? {name: "reward", Name: "Reward", fewer: "less reward"} : {name: "clicks", Name: "Clicks", fewer: "fewer clicks"});

export function bytes(n) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let k = 0;
  while (n >= 1024 && k < units.length - 1) {
    n /= 1024;
    k += 1;
  }
  return `${k ? n.toFixed(n < 10 ? 1 : 0) : n} ${units[k]}`;
}

export function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  for (const [size, name] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
    if (seconds >= size) {
      const n = seconds / size;
      const text = Number.isInteger(n) ? n : n.toFixed(1);
      return `${text} ${name}${n === 1 ? "" : "s"}`;
    }
  }
  const text = Number.isInteger(seconds) ? seconds : seconds.toFixed(1);
  return `${text} ${seconds === 1 ? "second" : "seconds"}`;
}

export function ago(time, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - new Date(time)) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} days ago`;
}

export function clock(time) {
  const date = new Date(time);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString()} `;
  return day + date.toLocaleTimeString("en-GB");
}

export const percent = (x) => (x === undefined ? "–" : x > 0.99 ? "over 99%" : x < 0.01 ? "under 1%" : `${Math.round(100 * x)}%`);

export const LAWS = {
  cascade: "Users hardly look any further after a click, as in the cascade model.",
  "position-based": "Users look as far after a click as without one, as in the position-based model.",
  "in between": "Users look further after a click, but less than without one.",
};

export const positions = (group) =>
  group.first === undefined ? "not shown" : group.first === group.last ? `position ${group.first}` : `positions ${group.first}–${group.last}`;

export const STATES = {
  exploring: "All items are still being compared with each other.",
  splitting: "Items are divided into batches that are ordered among themselves, or some are eliminated.",
  settled: "The list is final: nothing can change it any more.",
  frozen: "It shows one list, the best known when it was frozen, and learns nothing.",
  stuck: "Nothing can be learned: the last 200 impressions were voided, made under rules or failed, or 1,000 had no click.",
};
