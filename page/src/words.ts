// Numbers as people read them.
export const number = (value: number) => value.toLocaleString("en-GB");
export const percent = (share: number, digits = 0) => `${(100 * share).toFixed(digits)}%`;
export const plural = (count: number, one: string, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const seconds = (value: number) => (value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`);
/** A share that early models overstate: what is nearly certain is not told apart. */
export const likelihood = (share: number) => (share > 0.95 ? "> 95%" : percent(share));
/** The server's words with a capital and a full stop. */
export const sentence = (words: string) =>
  words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");
