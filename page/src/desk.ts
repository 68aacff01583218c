// The item on the screen, and what becomes of it.
//
// A decision is stored in the outbox first. The item then stays on the screen, marked, until the next one can be shown
// whole: keys pressed in between are ignored, because they would be answers to something nobody has seen. Where the
// server is away, the next item is one of those fetched ahead.
import { computed, signal } from "@preact/signals";
import { Failure, get, post, randomKey } from "./api.ts";
import { atHand, prepare } from "./content.ts";
import type { Content } from "./content.ts";
import { Outbox } from "./outbox.ts";
import type { Entry } from "./outbox.ts";
import { Sender } from "./sender.ts";
import { suggestions } from "./settings.ts";
import {
  annotator,
  announcement,
  away,
  className,
  leased,
  liveAway,
  locked,
  refusedCount,
  say,
  sendAway,
  status,
  waiting,
} from "./state.ts";
import { adoptOrphans, holdTab } from "./tabs.ts";
import type { ItemCard, Question, Shown, Stored, Undone } from "./types.ts";

const SLOW = 1500; // no answer for so long: go on with what is here
const AHEAD = 8;
const ENOUGH = 4; // items at hand that make looking ahead less urgent

export interface OnScreen {
  question: Question;
  content: Content | null; // null where there is nothing to show: all is done
  since: number;
}

export const screen = signal<OnScreen | null>(null);
export const answered = signal<string | null>(null); // what was just said of the item on the screen
export const stranded = signal(false); // the server is away and all that was fetched ahead is done
export const lastWords = signal<string | null>(null); // what undo would take back

/**
 * The item on the screen is not the one this person has now: they went on in another tab or on another device. Not said
 * while something of this tab is on its way, since then the server is only ahead of what we have heard.
 */
export const stale = computed(() => {
  const now = leased.value;
  const question = screen.value?.question;
  if (!now || !question || question.item === null || question.lease === null) return false;
  if (waiting.value > 0 || answered.value !== null || away.value) return false;
  return now.lease > question.lease && now.item !== question.item;
});

/** Go on here with the item that this person has now. */
export const goOnHere = () => askNext();

const tab = randomKey();
const past: Question[] = []; // what was decided here, for an undo while the server is away
const decided = new Set<number>();
let ahead: Shown[] = [];
let held: Question | null = null; // leased to us, while something else is on the screen
let box: Outbox | null = null;
let sender: Sender | null = null;
let turn = 0; // the latest wish to show something wins
let slow = 0;
let looking = 0;
let keyAt: number | null = null;
let undoing: Question | undefined; // shown again at once should the server be away

export const outbox = () => box;

function count(): void {
  waiting.value = box?.mine().length ?? 0;
  refusedCount.value = box?.refused().length ?? 0;
}

/** Once the project is known: what was left lying here is sent, then the first item comes. */
export async function open(project: string): Promise<void> {
  if (box) return;
  holdTab(tab);
  box = new Outbox(localStorage, project, tab);
  sender = new Sender(
    box,
    { post: (path, body) => post(path, body), idOf: async (item) => (await get<ItemCard>(`api/items/${item}`)).id },
    {
      stored,
      refused,
      locked: () => (locked.value = true),
      away(failure) {
        sendAway.value = failure;
        count();
        if (answered.value === "undo" && undoing) comeBack(undoing);
        else if (answered.value !== null) stepLocally();
      },
      back() {
        sendAway.value = null;
      },
    },
  );
  await adoptOrphans(box);
  count();
  if (waiting.value > 0) sender.kick();
  else await askNext();
}

/** The server is there again, or we know now who this is. */
export async function back(): Promise<void> {
  if (!box || !sender) return;
  await adoptOrphans(box);
  count();
  sender.kick();
  if (waiting.value === 0 && (screen.value === null || stranded.value)) await askNext();
}

/** Items decided in this browser, in any tab, of which the server has not heard yet. */
function queuedItems(): Set<number> {
  const entries = box?.entries().filter((entry) => entry.path !== "api/flag") ?? [];
  return new Set(entries.flatMap((entry) => (entry.item === null ? [] : [entry.item])));
}

/** The server asks for what waits here to be sent: nobody is asked twice. */
async function passOver(queued: Set<number>): Promise<void> {
  for (const item of queued) decided.add(item);
  await lookAhead();
  if (screen.value === null && !stepLocally()) setTimeout(() => screen.value === null && void askNext(), 1000);
}

let asking = false;
export async function askNext(): Promise<void> {
  if (asking || annotator.value === null || status.value?.phase !== "ready") return;
  asking = true;
  try {
    const queued = queuedItems(); // before the call: what is sent meanwhile is decided all the same
    const question = await post<Question>("api/next", { annotator: annotator.value });
    for (const item of queuedItems()) queued.add(item);
    if (question.item !== null && queued.has(question.item)) await passOver(queued);
    else {
      await show(question);
      sendAway.value = null;
    }
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.trouble === "locked") locked.value = true;
    else if (error.trouble === "refused") say(error.message, "bad");
    else {
      sendAway.value = error;
      setTimeout(() => screen.value === null && void askNext(), 1000);
    }
  } finally {
    asking = false;
  }
}

async function show(question: Question): Promise<void> {
  const mine = ++turn;
  clearTimeout(slow);
  if (held?.item === question.item) held = null;
  let content: Content | null = null;
  if (question.item !== null) {
    const wanted = { item: question.item, kind: question.kind, text: question.text };
    content = atHand(question.item) ?? (await prepare(wanted));
    if (mine !== turn) return;
    if (content === null) {
      // the server went between the answer and the picture
      held = question;
      if (!stepLocally()) setTimeout(() => mine === turn && void show(question), 500);
      return;
    }
  }
  reveal({ question, content, since: performance.now() });
}

function reveal(next: OnScreen): void {
  stranded.value = false;
  answered.value = null;
  screen.value = next;
  if (next.question.item !== null) decided.delete(next.question.item);
  measure(next.question.item);
  clearTimeout(looking);
  // Who is fast must not find the server busy with what is here already.
  const stock = ahead.filter(
    (shown) => !decided.has(shown.item) && shown.item !== next.question.item && atHand(shown.item),
  ).length;
  looking = window.setTimeout(() => void lookAhead(), stock >= ENOUGH ? 80 : 0);
}

/** For whoever measures: when the key came, and when the item it led to was painted. */
function measure(item: number | null): void {
  const key = keyAt;
  keyAt = null;
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      const shownAt = performance.now();
      const times = (window.__understudy ??= { turns: [] });
      times.turns.push({ item, keyAt: key, shownAt });
      if (times.turns.length > 1000) times.turns.shift();
    };
    channel.port2.postMessage(null);
  });
}

async function lookAhead(): Promise<void> {
  const who = annotator.value;
  if (who === null || liveAway.value) return;
  try {
    const fresh = await get<Shown[]>(`api/ahead?annotator=${encodeURIComponent(who)}&n=${AHEAD}`);
    const known = new Set(fresh.map((shown) => shown.item));
    ahead = [...fresh, ...ahead.filter((shown) => !known.has(shown.item))].slice(0, 3 * AHEAD);
    for (const shown of fresh) {
      await prepare(shown); // one after the other: the likeliest first
      if (stranded.value) stepLocally();
    }
  } catch {
    // it is only a help
  }
}

const asQuestion = (shown: Shown): Question => ({
  ...shown,
  ask: null,
  lease_seconds: null,
  lease_until: null,
  lease: null,
  suggestion: null,
  confidence: null,
  flagged: false,
  mine: null,
  reason: null,
  note: "",
});

/** Go on with an item that is here already. */
function stepLocally(): boolean {
  clearTimeout(slow);
  const candidates = [...(held?.item != null ? [held] : []), ...ahead.map(asQuestion)];
  for (const question of candidates) {
    if (question.item === null || decided.has(question.item) || question.item === screen.value?.question.item) continue;
    const content = atHand(question.item);
    if (!content || content.kind === "broken") continue;
    if (held?.item === question.item) held = null;
    turn++;
    reveal({ question, content, since: performance.now() });
    return true;
  }
  if (away.value) stranded.value = true;
  return false;
}

export type Verdict = "skip" | "dont-know" | "bad";
const WORDS: Record<Verdict, string> = { skip: "skip", "dont-know": "don’t know", bad: "bad item" };

function current(): (Question & { item: number }) | null {
  if (status.value?.folders?.taken_for === "undecided") return null; // another question comes first
  const question = screen.value?.question;
  if (!question || question.item === null || answered.value !== null || stranded.value || stale.value) return null;
  return question as Question & { item: number };
}

function send(
  path: string,
  body: Record<string, unknown>,
  about: { item: number | null; id: string | null },
  words: string,
): void {
  if (!box || !sender || annotator.value === null) return;
  const key = randomKey();
  box.add({
    key,
    path,
    body: { ...body, annotator: annotator.value, key },
    item: about.item,
    id: about.id,
    words,
    at: Date.now(),
  });
  count();
  sender.nudge();
}

function leave(question: Question & { item: number }, words: string, pressed: number): void {
  clearTimeout(looking);
  keyAt = pressed;
  answered.value = words;
  lastWords.value = words;
  past.push(question);
  if (past.length > 500) past.shift();
  decided.add(question.item);
  if (sendAway.value) stepLocally();
  else slow = window.setTimeout(stepLocally, SLOW);
}

/** The item on the screen is of this class. */
export function label(index: number): void {
  const pressed = performance.now();
  const question = current();
  if (!question || index < 0 || index >= (status.value?.classes.length ?? 0)) return;
  if (screen.value?.content?.kind === "broken")
    return say("What cannot be seen cannot be labelled: skip it, or call it a bad item.");
  const seconds = Math.min(86_400, (pressed - (screen.value?.since ?? 0)) / 1000);
  const body: Record<string, unknown> = {
    item: question.item,
    label: index,
    seconds: Math.round(seconds * 1000) / 1000,
  };
  if (suggestions.value && question.suggestion !== null) body.suggestion = question.suggestion;
  send("api/labels", body, question, className(index));
  leave(question, className(index), pressed);
  announcement.value = `Labelled ${className(index)}.`;
}

export function put(verdict: Verdict): void {
  const pressed = performance.now();
  const question = current();
  if (!question) return;
  send(`api/${verdict}`, { item: question.item }, question, WORDS[verdict]);
  leave(question, WORDS[verdict], pressed);
  announcement.value = `${WORDS[verdict]}.`;
}

export function flag(): void {
  const question = current();
  if (!question || !screen.value) return;
  const on = !question.flagged;
  screen.value = { ...screen.value, question: { ...question, flagged: on, note: "" } };
  send("api/flag", { item: question.item, on, note: "" }, question, on ? "flag" : "no flag");
  lastWords.value = on ? "flag" : "no flag";
  announcement.value = on ? "Flagged." : "No longer flagged.";
}

/** Flag the item on the screen with a note, or give its flag another one. */
export function flagWithNote(note: string): void {
  const question = current();
  if (!question || !screen.value) return;
  const words = question.flagged ? "note" : "flag";
  screen.value = { ...screen.value, question: { ...question, flagged: true, note } };
  send("api/flag", { item: question.item, on: true, note }, question, words);
  lastWords.value = words;
  announcement.value = question.flagged ? "Note changed." : "Flagged.";
}

/** Decisions of the other views. The screen here does not wait for them. */
export function decideElsewhere(
  path: string,
  body: Record<string, unknown>,
  about: { item: number | null; id: string | null },
  words: string,
): void {
  lastWords.value = words;
  send(path, body, about, words);
  announcement.value = `${words}.`;
}

export function undo(): void {
  if (!box || !sender || answered.value === "undo" || stale.value) return;
  const last = box.mine().at(-1);
  const before = past.pop();
  if (last && last.tries === 0 && last.key !== sender.sending && last.path !== "api/undo") {
    box.remove(last); // the server has never heard of it
    count();
    lastWords.value = null;
    if (before && before.item === last.item) comeBack(before);
    else if (last.path === "api/flag" && screen.value) {
      const { question } = screen.value;
      const flagged = last.words === "note" ? question.flagged : !question.flagged;
      screen.value = { ...screen.value, question: { ...question, flagged } };
      if (before) past.push(before);
    }
    announcement.value = `Undone: ${last.words}.`;
    return;
  }
  const wasAway = sendAway.value;
  send("api/undo", {}, { item: null, id: null }, "undo");
  lastWords.value = null;
  if (wasAway && before) comeBack(before);
  else {
    undoing = before;
    answered.value = "undo";
  }
}

function comeBack(question: Question): void {
  if (question.item === null) return;
  const now = screen.value?.question;
  if (now && now.item !== null && answered.value === null && now.item !== question.item) held = now;
  decided.delete(question.item);
  void show(question);
}

function stored(entry: Entry, reply: unknown, isLast: boolean): void {
  count();
  const answer = reply as Partial<Stored> & Partial<Undone>;
  const isUndo = entry.path === "api/undo";
  if (isUndo) announcement.value = "Undone.";
  if (isUndo && answer.what?.startsWith("class")) say("Your last change of classes was taken back.");
  if (!isLast || !answer.next) return;
  const next = answer.next;
  const now = screen.value?.question;
  if (isUndo && next.item !== null && answered.value === "undo") void show(next);
  else if (next.item !== null && now?.item === next.item && answered.value === null) {
    // the same item, and the server knows more of it than we did
    if (screen.value) screen.value = { ...screen.value, question: next };
  } else if (screen.value === null || answered.value !== null || stranded.value || now?.item === null) void show(next);
  else if (next.item !== null) held = next;
}

function refused(entry: Entry, failure: Failure): void {
  count();
  if (entry.path === "api/undo" && failure.status === 409 && box) {
    box.forgetRefusedEntry(entry.key);
    count();
    say("There is nothing to undo.");
    answered.value = null;
    return;
  }
  say(`“${entry.words}” could not be stored: ${failure.message}`, "bad");
  if (answered.value !== null) void askNext();
}

/** A person who comes back after the lease has run out gets a fresh item rather than one that others may have by now. */
export function refreshIfStale(): void {
  const now = screen.value;
  if (!now || answered.value !== null || away.value || liveAway.value) return;
  const { lease_seconds: lease, item } = now.question;
  if (item === null || (lease !== null && performance.now() - now.since > lease * 1000)) void askNext();
}

export function forget(): void {
  turn++;
  screen.value = null;
  answered.value = null;
  stranded.value = false;
  held = null;
  ahead = [];
  past.length = 0;
  lastWords.value = null;
}

declare global {
  interface Window {
    __understudy?: { turns: { item: number | null; keyAt: number | null; shownAt: number }[] };
  }
}
