// Calls to the server. A failure says which of three things it is, because each is answered differently.

export type Trouble =
  | "away" // nobody knows whether the call arrived, or the server cannot store now: send it again, with the same key
  | "locked" // the server wants to know who this is
  | "refused"; // the server understood and said no: sending it again changes nothing

export class Failure extends Error {
  constructor(
    readonly trouble: Trouble,
    message: string,
    readonly status = 0,
  ) {
    super(message);
  }
}

const LATER = new Set([408, 425, 429, 500, 502, 503, 504, 507]);

async function detailOf(answer: Response): Promise<string> {
  try {
    const detail = ((await answer.json()) as { detail?: unknown }).detail;
    if (typeof detail === "string") return detail;
    if (Array.isArray(detail)) return detail.map((each) => (each as { msg?: string }).msg ?? "").join("; ");
  } catch {
    // no JSON: the status has to do
  }
  return `the server answered ${answer.status}`;
}

const asJson = (answer: Response): Promise<unknown> => answer.json();

async function answered<T>(path: string, init: RequestInit, timeout: number, read = asJson): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, {
      ...init,
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.timeout(timeout),
    });
  } catch {
    throw new Failure("away", "the server does not answer");
  }
  if (answer.ok) {
    try {
      return (await read(answer)) as T;
    } catch {
      throw new Failure("away", "the answer broke off");
    }
  }
  const detail = await detailOf(answer);
  if (answer.status === 401) throw new Failure("locked", detail, 401);
  throw new Failure(LATER.has(answer.status) ? "away" : "refused", detail, answer.status);
}

export function get<T>(path: string, timeout = 20_000): Promise<T> {
  return answered<T>(path, {}, timeout);
}

export function getBytes(path: string, timeout = 60_000): Promise<ArrayBuffer> {
  return answered<ArrayBuffer>(path, {}, timeout, (answer) => answer.arrayBuffer());
}

export function post<T>(path: string, body: unknown, timeout = 15_000): Promise<T> {
  const headers = { "content-type": "application/json" };
  return answered<T>(path, { method: "POST", headers, body: JSON.stringify(body) }, timeout);
}

export function upload<T>(path: string, body: Blob, type: string): Promise<T> {
  return answered<T>(path, { method: "POST", headers: { "content-type": type }, body }, 120_000);
}

export const contentOf = (item: number) => `api/items/${item}/content`;
export const thumbnailOf = (item: number) => `api/items/${item}/thumbnail`;

/** A name for a call that no other call has: 24 characters. Works without a secure context too. */
export function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(18));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_");
}
