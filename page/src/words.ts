// Numbers as people read them.
export const number = (value: number) => value.toLocaleString("en-GB");
export const percent = (share: number, digits = 0) => `${(100 * share).toFixed(digits)}%`;
export const plural = (count: number, one: string, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const seconds = (value: number) => (value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`);
/** A confidence. One that could not be checked against many audit items is marked as rough. */
export const likelihood = (share: number, rough = false) =>
  share > 0.99 ? (rough ? "≈ 99%" : "> 99%") : (rough ? "≈ " : "") + percent(share);
/** A time in seconds since 1970, where the reader is. */
export const when = (at: number) =>
  new Date(1000 * at).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
/** The server's words with a capital and a full stop. */
export const sentence = (words: string) =>
  words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");

/** A name without what is easily overlooked: case, accents, blanks. The server knows more of these and refuses them. */
const letters = (name: string) => name.normalize("NFKD").toLowerCase().replace(/[\p{Mn}\p{Me}\p{Zs}\p{Cf}]/gu, "");
/** The first of these classes whose name is easily taken for this one; null where there is none. */
export const lookAlike = (name: string, numbers: readonly number[], nameOf: (number: number) => string) =>
  numbers.find((number) => letters(nameOf(number)) === letters(name)) ?? null;

/** What each role may do, each all that those before it may. */
export const ROLE_WORDS = {
  annotator: "Annotator: labels items",
  reviewer: "Reviewer: also settles what others labelled",
  owner: "Owner: also changes classes, people and settings, imports and exports",
};
