// Which items are listed, and how: all of it in the address, so that the back button works and a link shows the same.

export const STATES = [
  "labelled",
  "unlabelled",
  "flagged",
  "disputed",
  "skipped",
  "unknown",
  "bad",
  "audit",
  "leased",
] as const;

export const STATE_WORDS: Record<string, string> = {
  labelled: "Labelled",
  unlabelled: "Unlabelled",
  flagged: "Flagged",
  disputed: "Disputed",
  skipped: "Skipped",
  unknown: "Don’t know",
  bad: "Bad",
  audit: "Audit",
  leased: "With somebody",
};

export const SORTS: [name: string, words: string][] = [
  ["pool", "Order of the data"],
  ["confidence-up", "Least sure first"],
  ["confidence-down", "Surest first"],
  ["surprise", "Most surprising label first"],
  ["latest", "Latest decision first"],
  ["earliest", "Earliest decision first"],
  ["name", "Name"],
];

/** What stands in the address. Numbers of classes and items; shares from 0 to 1; "" and null: not asked for. */
export interface Wanted {
  label: number[];
  suggested: number[];
  person: string;
  state: string[];
  from: number;
  to: number;
  search: string;
  similar: number | null;
  lasso: string;
  sort: string;
  page: number; // from 1 on
  open: number | null; // the item that is shown large
}

export const NOTHING: Wanted = {
  label: [],
  suggested: [],
  person: "",
  state: [],
  from: 0,
  to: 1,
  search: "",
  similar: null,
  lasso: "",
  sort: "",
  page: 1,
  open: null,
};

const whole = (text: string | null) => (text !== null && /^\d{1,10}$/.test(text) ? Number(text) : null);
const share = (text: string | null, other: number) => {
  const value = text === null || text === "" ? NaN : Number(text);
  return value >= 0 && value <= 1 ? value : other;
};

/** What an address asks for. What it does not understand is left out. */
export function wantedOf(hash: string): Wanted {
  const query = new URLSearchParams(hash.split("?").slice(1).join("?"));
  const numbers = (name: string) => query.getAll(name).flatMap((each) => whole(each) ?? []);
  const from = share(query.get("from"), 0);
  const to = share(query.get("to"), 1);
  return {
    label: numbers("class"),
    suggested: numbers("suggested"),
    person: query.get("person") ?? "",
    state: query.getAll("state").filter((each) => (STATES as readonly string[]).includes(each)),
    from: Math.min(from, to),
    to: Math.max(from, to),
    search: (query.get("search") ?? "").slice(0, 200),
    similar: whole(query.get("similar")),
    lasso: query.get("lasso") ?? "",
    sort: SORTS.some(([name]) => name === query.get("sort")) ? (query.get("sort") ?? "") : "",
    page: Math.max(1, whole(query.get("page")) ?? 1),
    open: whole(query.get("open")),
  };
}

/** What is wanted, apart from the page: the address and the call name some of it differently. */
function queryOf(wanted: Wanted, names: { label: string; from: string; to: string }): URLSearchParams {
  const query = new URLSearchParams();
  for (const number of wanted.label) query.append(names.label, String(number));
  for (const number of wanted.suggested) query.append("suggested", String(number));
  if (wanted.person) query.set("person", wanted.person);
  for (const state of wanted.state) query.append("state", state);
  if (wanted.from > 0) query.set(names.from, String(wanted.from));
  if (wanted.to < 1) query.set(names.to, String(wanted.to));
  if (wanted.search) query.set("search", wanted.search);
  if (wanted.similar !== null) query.set("similar", String(wanted.similar));
  if (wanted.lasso) query.set("lasso", wanted.lasso);
  if (wanted.sort) query.set("sort", wanted.sort);
  return query;
}

/** The address that asks for this. */
export function hashOf(wanted: Wanted): string {
  const query = queryOf(wanted, { label: "class", from: "from", to: "to" });
  if (wanted.page > 1) query.set("page", String(wanted.page));
  if (wanted.open !== null) query.set("open", String(wanted.open));
  const text = query.toString();
  return text ? `#/browse?${text}` : "#/browse";
}

/** The call that answers it, `size` items a page; with `rows` it names all that match. */
export function callOf(wanted: Wanted, size: number, rows = false): string {
  const query = queryOf(wanted, { label: "label", from: "confidence_from", to: "confidence_to" });
  query.set("offset", String((wanted.page - 1) * size));
  query.set("limit", String(rows ? 1 : size));
  if (rows) query.set("rows", "true");
  return `api/items?${query.toString()}`;
}

/** Whether anything is asked for that leaves items out. */
export const isFiltered = (wanted: Wanted) =>
  hashOf({ ...wanted, sort: "", page: 1, open: null, similar: null }) !== "#/browse";

/** The items from one to another in the order of the list, both included. */
export function between(items: readonly number[], first: number, last: number): number[] {
  const [a, b] = [items.indexOf(first), items.indexOf(last)];
  return a < 0 || b < 0 ? [last] : items.slice(Math.min(a, b), Math.max(a, b) + 1);
}
