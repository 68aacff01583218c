import { describe, expect, it } from "vitest";
import { trainingWords } from "../src/training.ts";

const training = { state: "waiting", at_labels: 20, next_at: 30, seconds: null, reason: null };
const numbers = { training, labelled: 24, audited: 2, total: 100, skipped: 0, unknown: 0, bad: 0 };

describe("words on training", () => {
  it("count the labels until the next one, without those that only judge", () => {
    expect(trainingWords(numbers)).toBe("next training in 8");
    expect(trainingWords({ ...numbers, training: { ...training, at_labels: null } })).toBe("first training in 8 labels");
  });

  it("promise no next one while one runs", () => {
    expect(trainingWords({ ...numbers, training: { ...training, state: "running", seconds: 3.2 } })).toBe(
      "training, 3 s",
    );
  });

  it("promise none that cannot come before the pool is empty", () => {
    expect(trainingWords({ ...numbers, total: 32 })).toBe("next training in 8");
    expect(trainingWords({ ...numbers, total: 31 })).toBe("next training at the end");
    expect(trainingWords({ ...numbers, total: 32, skipped: 1 })).toBe("next training at the end");
    expect(trainingWords({ ...numbers, total: 24 })).toBe("model of 20 labels");
  });

  it("never count down to nothing", () => {
    expect(trainingWords({ ...numbers, labelled: 33 })).toBe("training starts soon");
  });
});
