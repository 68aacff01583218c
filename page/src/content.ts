// Items fetched ahead, so that the next one is on the screen the moment it is known.
import { contentOf } from "./api.ts";
import type { Shown } from "./types.ts";

export type Content =
  { kind: "image"; image: HTMLImageElement } | { kind: "text"; text: string } | { kind: "broken"; why: string }; // the server has it no more: said in the item's place

const KEPT = 48;
const cache = new Map<number, Promise<Content | null>>();
const ready = new Map<number, Content>();

async function whyBroken(item: number): Promise<Content | null> {
  let answer: Response;
  try {
    answer = await fetch(contentOf(item), { cache: "no-store" });
  } catch {
    return null;
  }
  if (answer.ok) return { kind: "broken", why: "This browser cannot show the image." };
  if (answer.status >= 500 || answer.status === 401) return null;
  const body = (await answer.json().catch(() => null)) as { detail?: string } | null;
  return { kind: "broken", why: body?.detail ?? `The server answered ${answer.status}.` };
}

async function picture(item: number): Promise<Content | null> {
  const image = new Image();
  image.decoding = "sync"; // it is decoded below, before it is put on the page
  image.draggable = false;
  image.src = contentOf(item);
  try {
    await image.decode();
    return { kind: "image", image };
  } catch {
    return whyBroken(item);
  }
}

async function text(shown: Pick<Shown, "item" | "text">): Promise<Content | null> {
  if (shown.text !== null) return { kind: "text", text: shown.text };
  try {
    const answer = await fetch(contentOf(shown.item));
    if (answer.ok) return { kind: "text", text: await answer.text() };
    if (answer.status >= 500 || answer.status === 401) return null;
    const body = (await answer.json().catch(() => null)) as { detail?: string } | null;
    return { kind: "broken", why: body?.detail ?? `The server answered ${answer.status}.` };
  } catch {
    return null;
  }
}

type Wanted = { item: number; kind: string | null; text: string | null };

/** The content of an item; null where the server is away. Null is not remembered. */
export function prepare(shown: Wanted): Promise<Content | null> {
  const known = cache.get(shown.item);
  if (known) {
    cache.delete(shown.item);
    cache.set(shown.item, known); // latest last: the oldest goes first
    return known;
  }
  const made = (shown.kind === "text" ? text(shown) : picture(shown.item)).then((content) => {
    if (content) ready.set(shown.item, content);
    else cache.delete(shown.item);
    return content;
  });
  cache.set(shown.item, made);
  for (const item of cache.keys()) {
    if (cache.size <= KEPT) break;
    cache.delete(item);
    ready.delete(item);
  }
  return made;
}

/** What is here already, at once. */
export function atHand(item: number): Content | null {
  return ready.get(item) ?? null;
}
