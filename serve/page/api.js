// The service's API: JSON, events as they come, images, and errors in the service's own words.

const KEY = "rag-cluster-key";

/** The API key of this tab; it is gone when the tab is closed. */
export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

/** What the service answered in place of what was asked. `waitS` is its Retry-After, or null. */
export class ServiceError extends Error {
  constructor(status, message, waitS = null) {
    super(message);
    this.status = status;
    this.waitS = waitS;
  }
}

/** Whether a fetch ended because it was told to. */
export const stopped = (error) => error.name === "AbortError";

async function request(path, { body, signal } = {}) {
  const headers = {};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  const options = { headers, signal };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (stopped(error)) throw error;
    throw new ServiceError(0, "The service cannot be reached.");
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function errorOf(response) {
  let message = `The service answered ${response.status} ${response.statusText}`.trim();
  try {
    message = (await response.json()).error.message;
  } catch {
    // Something between here and the service answered, in a shape of its own.
  }
  const wait = Number.parseInt(response.headers.get("Retry-After"), 10);
  return new ServiceError(response.status, message, Number.isNaN(wait) ? null : wait);
}

/** The JSON of a route; with a body it is a POST. */
export async function json(path, options) {
  return (await request(path, options)).json();
}

/** An image as an address in memory, which must be revoked. */
export async function image(path, options) {
  return URL.createObjectURL(await (await request(path, options)).blob());
}

/** Server-sent events of a POST as [name, data], until the stream ends. */
export async function* events(path, options) {
  const response = await request(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const found = parse(block);
        if (found) yield found;
      }
    }
  } catch (error) {
    if (stopped(error) || error instanceof ServiceError) throw error;
    throw new ServiceError(0, "The connection broke off.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(block) {
  let name = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length ? [name, JSON.parse(data.join("\n"))] : null;
}
