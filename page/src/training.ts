// Where training stands, in a few words.
import type { Status } from "./types.ts";
import { number, plural } from "./words.ts";

type Numbers = Pick<Status, "training" | "labelled" | "audited" | "total" | "skipped" | "unknown" | "bad">;

/** Audit items are labelled, but nothing is ever trained on them. No training is promised that cannot come. */
export function trainingWords({ training, labelled, audited, total, skipped, unknown, bad }: Numbers): string {
  if (training.state === "running")
    return training.seconds !== null && training.seconds >= 1
      ? `training, ${Math.round(training.seconds)} s`
      : "training";
  if (training.state === "failed") return "last training failed";
  const first = training.at_labels === null;
  const asItIs = first ? "no model yet" : `model of ${plural(training.at_labels ?? 0, "label")}`;
  if (training.next_at === null) return asItIs;
  const wanting = training.next_at - (labelled - audited);
  if (wanting <= 0) return "training starts soon";
  const left = total - labelled - skipped - unknown - bad;
  if (left <= 0) return asItIs;
  if (wanting > left) return `${first ? "first" : "next"} training at the end`;
  return first ? `first training in ${plural(wanting, "label")}` : `next training in ${number(wanting)}`;
}
