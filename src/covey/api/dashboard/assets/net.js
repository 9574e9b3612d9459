// The client of the service: identity, API versions, requests and events.

const HERE = new URL("./", document.baseURI);
const COMPUTE = { "OpenStack-API-Version": "compute 2.1000" };
const CLUSTERING = { "OpenStack-API-Version": "clustering 1.14" };
const STORAGE_KEY = "covey.identity";
const RECONNECT_MS = 1000;
const POLL_MS = 5000;
const STREAM_RETRY_MS = 30000;

/** An error response of the service, or a network error with status 0. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let identity = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null");

/** Returns whether a user is signed in. */
export const isSignedIn = () => identity !== null;

/** Sets the headers of further requests, for the lifetime of the tab; null signs out. */
export function setIdentity(headers) {
  identity = headers;
  if (headers) sessionStorage.setItem(STORAGE_KEY, JSON.stringify(headers));
  else sessionStorage.removeItem(STORAGE_KEY);
}

/** Returns the headers of the credentials of the sign-in form. With Keystone, it requests a token. */
export async function credentials(auth, { name, password, project, domain }) {
  if (auth === "none") return { "X-Auth-Token": project ? `${name}:${project}` : name };
  if (auth === "keystone") {
    const { token } = await ask("POST", "session", { name, password, project, domain: domain || "Default" });
    return { "X-Auth-Token": token };
  }
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  return { Authorization: `Basic ${btoa(String.fromCharCode(...bytes))}` };
}

/** Sends a request and returns the body of the response. Throws ApiError. */
export async function ask(method, path, body, more = {}, signal = undefined) {
  const headers = { Accept: "application/json", ...identity, ...more };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(path, HERE), {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The service does not answer. It may be restarting, or the network is down.");
  }
  const text = await response.text();
  const parsed = parse(text);
  if (response.ok) return parsed;
  if (response.status === 401 && identity) document.dispatchEvent(new CustomEvent("unauthorized"));
  throw new ApiError(response.status, errorMessage(parsed) ?? `HTTP ${response.status} ${response.statusText}`);
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

/** Returns the message of an error body of any API. */
function errorMessage(body) {
  if (!body || typeof body !== "object") return null;
  const error = body.error ?? body.errors?.[0] ?? Object.values(body)[0];
  return error?.message ?? error?.detail ?? null;
}

/**
 * Listens for changes until the signal: calls `notify(subject)` for each, with "hello" when anything may have changed,
 * and `connected(state)` with "live", "polling" without an event stream, or "offline".
 */
export async function listen(notify, connected, signal) {
  while (!signal.aborted) {
    const began = Date.now();
    try {
      await stream(notify, connected, signal);
      await sleep(RECONNECT_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      connected(error.status ? "polling" : "offline");
      for (let next = began; Date.now() - began < STREAM_RETRY_MS && !signal.aborted; next += POLL_MS) {
        await sleep(POLL_MS, signal);
        notify("hello");
        if (!error.status) break; // offline: retry the stream first
      }
    }
  }
}

async function stream(notify, connected, signal) {
  const headers = { Accept: "text/event-stream", ...identity };
  const response = await fetch(new URL("events", HERE), { headers, signal, credentials: "omit" });
  if (!response.ok) {
    await response.body?.cancel();
    if (response.status === 401) document.dispatchEvent(new CustomEvent("unauthorized"));
    throw new ApiError(response.status, "No event stream is available.");
  }
  connected("live");
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const pieces = (rest + value).split("\n\n");
    rest = pieces.pop();
    for (const piece of pieces) {
      const subject = /^event: (\w+)/m.exec(piece)?.[1];
      if (subject) notify(subject);
    }
  }
}

function sleep(milliseconds, signal) {
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
