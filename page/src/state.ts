// What all views know.
import { computed, signal } from "@preact/signals";
import { get } from "./api.ts";
import type { Failure } from "./api.ts";
import type { ClassView } from "./keys.ts";
import type { CurvePoint, Me, Progress, Role, Status } from "./types.ts";

export const status = signal<Status | null>(null);
export const me = signal<Me | null>(null);
export const annotator = signal<string | null>(null); // null until we know who labels
export const locked = signal(false); // the server asks for a password, or the token has gone
export const lockedWords = signal(""); // what the server says of it

const ROLES: readonly Role[] = ["annotator", "reviewer", "owner"]; // each may do what those before it may
/** Whether this person's role allows what takes this one. The server refuses the rest in any case. */
export const may = (needed: Role) => ROLES.indexOf(me.value?.role ?? "annotator") >= ROLES.indexOf(needed);

/** Who this person is, as the server says it now: others may have renamed them, or given them another role. */
export function takeMe(fresh: Me): void {
  const before = me.value;
  me.value = fresh;
  if (annotator.value === null || fresh.annotator === null) return;
  if (fresh.annotator !== annotator.value) say(`You are called ${fresh.annotator} now.`);
  annotator.value = fresh.annotator;
  if (!before?.role || !fresh.role || before.role === fresh.role) return;
  say(`You are ${fresh.role === "reviewer" ? "a" : "an"} ${fresh.role} now.`);
}
export const curve = signal<CurvePoint[]>([]);

export const liveAway = signal(false);
export const sendAway = signal<Failure | null>(null);
export const away = computed(() => liveAway.value || sendAway.value !== null);

export const waiting = signal(0); // decisions in the outbox
export const refusedCount = signal(0);

export const VIEWS = ["label", "browse", "grid", "review", "progress", "export"] as const;
export type View = (typeof VIEWS)[number] | "map"; // the map is a tab of Browse
// An address is #/VIEW, #/VIEW/PART or #/VIEW/PART?QUERY.
const pathOf = (hash: string) => hash.replace(/^#\//, "").split("?")[0]?.split("/") ?? [];
export const viewOf = (hash: string): View => [...VIEWS, "map" as const].find((each) => each === pathOf(hash)[0]) ?? "label";
export const partOf = (hash: string) => pathOf(hash)[1] ?? "";
export const queryOf = (hash: string) => hash.split("?")[1] ?? "";
export const view = signal<View>(viewOf(location.hash));
export const part = signal(partOf(location.hash)); // which tab of the view, where it has some
export const query = signal(queryOf(location.hash)); // what the view is to show, where one can choose

const NEEDED: Partial<Record<View, Role>> = { map: "reviewer", review: "reviewer", export: "owner" };
/** The views that this person's role leaves to them. */
export const views = computed(() => VIEWS.filter((each) => may(NEEDED[each] ?? "annotator")));
/** The view that is shown: that of the address, if the role leaves it to them. */
export const viewShown = computed<View>(() => (may(NEEDED[view.value] ?? "annotator") ? view.value : "label"));

export const allowed = signal({ suggestions: true, copies: false }); // what the project's settings leave to each person

/** The item that this person has now, as the server says it: one of two tabs finds by this that it is behind. */
export const leased = signal<{ item: number; lease: number } | null>(null);

export const dialog = signal<null | "help" | "settings" | "find" | "add" | "refused" | "people" | "classes" | "note" | "assign">(null);

export const toast = signal<{ words: string; tone: "calm" | "bad" } | null>(null);
export const announcement = signal("");

let toastTimer = 0;
export function say(words: string, tone: "calm" | "bad" = "calm"): void {
  toast.value = { words, tone };
  announcement.value = words;
  clearTimeout(toastTimer);
  toastTimer = window.setTimeout(() => (toast.value = null), tone === "bad" ? 8000 : 3000);
}

export const classes = computed(() => status.value?.classes ?? []); // names by number, of classes that are gone too
export const offered = computed(() => status.value?.class_order ?? []); // the classes to label with, in their order
export const styles = computed(() => new Map((status.value?.class_styles ?? []).map((style) => [style.number, style])));
export const classView = computed<ClassView>(() => ({
  order: offered.value,
  shortcuts: new Map(
    [...styles.value].flatMap(([number, { shortcut }]): [number, string][] => (shortcut ? [[number, shortcut]] : [])),
  ),
}));
/** The classes that are offered, and hidden ones that have labels. */
export const counted = computed(() => {
  const hidden = (status.value?.class_counts ?? []).flatMap((count, number) => (count > 0 ? [number] : []));
  return [...new Set([...offered.value, ...hidden])].map((number) => ({
    number,
    name: className(number),
    count: status.value?.class_counts[number] ?? 0,
  }));
});
/** The class that is offered under this name; null where there is none. */
export const numberOf = (name: string) => offered.value.find((number) => classes.value[number] === name) ?? null;
export const className = (index: number) => classes.value[index] ?? `class ${index}`;

let curveOf: string | undefined; // the model that the curve ends with
export function take(fresh: Status): void {
  const before = status.value;
  if (before && before.project !== fresh.project) {
    location.reload(); // another project is served here now: begin anew, so that no label goes astray
    return;
  }
  status.value = fresh;
  const news = fresh.class_news;
  if (before && news && news.seq > (before.class_news?.seq ?? 0) && news.by !== annotator.value)
    say(news.by === null ? news.line : `${news.by}: ${news.line}`);
  const joined = fresh.items_news;
  if (before?.phase === "ready" && joined && joined.seq > (before.items_news?.seq ?? 0)) say(`${joined.line}.`);
  if (fresh.phase === "ready" && fresh.model !== null && fresh.model !== curveOf) {
    curveOf = fresh.model;
    void get<Progress>("api/progress").then(
      (progress) => (curve.value = progress.curve),
      () => (curveOf = undefined),
    );
  }
}
