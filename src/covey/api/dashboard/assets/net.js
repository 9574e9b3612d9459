// Speaking with the service: as whom, in which version, and hearing of changes.

const HERE = new URL("./", document.baseURI);
const COMPUTE = { "OpenStack-API-Version": "compute 2.1000" };
const CLUSTERING = { "OpenStack-API-Version": "clustering 1.14" };
const KEPT = "covey.identity";
const AGAIN_MS = 1000;
const POLL_MS = 5000;
const STREAM_AGAIN_MS = 30000;

/** What the service, or the way to it, said no with. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let identity = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");

/** Whether somebody is signed in. */
export const known = () => identity !== null;

/** From now on requests carry these headers; null signs out. They live as long as the tab. */
export function become(headers) {
  identity = headers;
  if (headers) sessionStorage.setItem(KEPT, JSON.stringify(headers));
  else sessionStorage.removeItem(KEPT);
}

/** The headers for what was typed into the sign-in form. Keystone is asked for a token first. */
export async function credentials(auth, { name, password, project, domain }) {
  if (auth === "none") return { "X-Auth-Token": project ? `${name}:${project}` : name };
  if (auth === "keystone") {
    const ticket = await ask("POST", "session", { name, password, project, domain: domain || "Default" });
    return { "X-Auth-Token": ticket.token };
  }
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  return { Authorization: `Basic ${btoa(String.fromCharCode(...bytes))}` };
}

/** Asks the service and reads the answer. Raises Refused with a sentence for people. */
export async function ask(method, path, body, more = {}, signal = undefined) {
  const headers = { Accept: "application/json", ...identity, ...more };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(new URL(path, HERE), {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The service does not answer. It may be restarting, or the network is down.");
  }
  const text = await answer.text();
  const said = parse(text);
  if (answer.ok) return said;
  if (answer.status === 401 && identity) document.dispatchEvent(new CustomEvent("unknown"));
  throw new Refused(answer.status, sentence(said) ?? `The service answered ${answer.status} ${answer.statusText}.`);
}

export const data = (path, signal) => ask("GET", `data/${path}`, undefined, {}, signal);
export const compute = (method, path, body) => ask(method, `../compute/v2.1/${path}`, body, COMPUTE);
export const clustering = (method, path, body) => ask(method, `../clustering/v1/${path}`, body, CLUSTERING);
export const images = (path) => ask("GET", `../image/v2/${path}`);

function parse(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** The message of an error, wherever an API keeps it. */
function sentence(said) {
  if (!said || typeof said !== "object") return null;
  const place = said.error ?? said.errors?.[0] ?? Object.values(said)[0];
  return place?.message ?? place?.detail ?? null;
}

/**
 * Hears of changes until the signal: `tell(subject)` for each, "hello" when anything may have changed; `how(state)` is
 * "live", "asking" while there is no stream and the page asks every few seconds, or "away".
 */
export async function listen(tell, how, signal) {
  while (!signal.aborted) {
    const began = Date.now();
    try {
      await stream(tell, how, signal);
      await rest(AGAIN_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      how(error.status ? "asking" : "away");
      for (let next = began; Date.now() - began < STREAM_AGAIN_MS && !signal.aborted; next += POLL_MS) {
        await rest(POLL_MS, signal);
        tell("hello");
        if (!error.status) break; // the service was away: try the stream first
      }
    }
  }
}

async function stream(tell, how, signal) {
  const headers = { Accept: "text/event-stream", ...identity };
  const answer = await fetch(new URL("events", HERE), { headers, signal, credentials: "omit" });
  if (!answer.ok) {
    await answer.body?.cancel();
    if (answer.status === 401) document.dispatchEvent(new CustomEvent("unknown"));
    throw new Refused(answer.status, "There is no stream now.");
  }
  how("live");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const pieces = (rest + value).split("\n\n");
    rest = pieces.pop();
    for (const piece of pieces) {
      const subject = /^event: (\w+)/m.exec(piece)?.[1];
      if (subject) tell(subject);
    }
  }
}

function rest(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
