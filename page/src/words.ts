// Numbers as people read them.
export const number = (value: number) => value.toLocaleString("en-GB");
export const percent = (share: number, digits = 0) => `${(100 * share).toFixed(digits)}%`;
export const plural = (count: number, one: string, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const seconds = (value: number) => (value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`);
/** A confidence. One that could not be checked against many audit items is marked as rough. */
export const likelihood = (share: number, rough = false) =>
  share > 0.99 ? (rough ? "≈ 99%" : "> 99%") : (rough ? "≈ " : "") + percent(share);
/** The server's words with a capital and a full stop. */
export const sentence = (words: string) =>
  words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");
