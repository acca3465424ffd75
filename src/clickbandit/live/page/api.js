// Talks to the service. A stream is read by fetch and not by EventSource, which cannot send the API key.

const KEY = "clickbandit-key";
const SILENCE = 6000; // milliseconds without a word after which a connection is taken for lost
const PAUSE = 1000;

let askForKey = async () => null;
export const onKeyNeeded = (ask) => (askForKey = ask);

function headers() {
  const key = sessionStorage.getItem(KEY);
  return key ? {authorization: `Bearer ${key}`} : {};
}

async function keyGiven() {
  const known = sessionStorage.getItem(KEY) !== null;
  sessionStorage.removeItem(KEY);
  const key = await askForKey(known);
  if (key) sessionStorage.setItem(KEY, key);
  return Boolean(key);
}

async function problem(response) {
  try {
    return (await response.json()).detail;
  } catch {
    return `the service answered with status ${response.status}`;
  }
}

export async function post(path, body) {
  const request = {method: "POST", headers: {...headers(), "content-type": "application/json"}, body: JSON.stringify(body ?? {})};
  const response = await fetch(path, body === undefined ? {method: "POST", headers: headers()} : request);
  if (response.status === 401 && (await keyGiven())) return post(path, body);
  if (!response.ok) throw new Error(await problem(response));
  return response.json();
}

export async function load(path) {
  return (await fetch(path)).json();
}

// Follows a stream until stopped, whatever happens to the connection. `on` has data, problem, and connected.
export function follow(path, on) {
  let stopped = false;
  let abort = new AbortController();

  async function read() {
    const response = await fetch(path, {headers: headers(), signal: abort.signal, cache: "no-store"});
    if (response.status === 401) {
      if (!(await keyGiven())) on.problem("An API key is needed.");
      return;
    }
    if (!response.ok) {
      on.problem(await problem(response));
      return;
    }
    on.connected(true);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const watch = setTimeout(() => abort.abort(), SILENCE);
      const {value, done} = await reader.read().finally(() => clearTimeout(watch));
      if (done) return;
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      for (const part of parts) deliver(part);
    }
  }

  function deliver(part) {
    const lines = part.split("\n");
    const data = lines.find((line) => line.startsWith("data: "));
    if (!data || stopped) return;
    const value = JSON.parse(data.slice(6));
    if (lines.includes("event: problem")) on.problem(value.detail);
    else on.data(value);
  }

  (async () => {
    while (!stopped) {
      try {
        await read();
      } catch {
        // not there, or gone: said below, and tried again
      }
      if (stopped) return;
      on.connected(false);
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
      abort = new AbortController();
    }
  })();

  return () => {
    stopped = true;
    abort.abort();
  };
}
