import { describe, expect, it, vi } from "vitest";
import { Failure } from "../src/api.ts";
import { Outbox } from "../src/outbox.ts";
import { Sender } from "../src/sender.ts";
import { MemoryStorage } from "./browser.ts";

const wish = (key: string, item = 1) => ({
  key,
  path: "api/labels",
  body: { item, key },
  item,
  id: `item-${item}`,
  words: "cat",
});

function desk(answer: (key: string, sent: string[]) => unknown, id = "item-1") {
  const box = new Outbox(new MemoryStorage(), "p", "t");
  const sent: string[] = [];
  const heard: string[] = [];
  const sender = new Sender(
    box,
    {
      post: async (_, body) => {
        const { key } = body as { key: string };
        sent.push(key);
        return answer(key, sent);
      },
      idOf: async () => id,
    },
    {
      stored: (entry, _, isLast) => heard.push(`stored ${entry.key}${isLast ? "!" : ""}`),
      refused: (entry) => heard.push(`refused ${entry.key}`),
      away: () => heard.push("away"),
      locked: () => heard.push("locked"),
      back: () => undefined,
    },
  );
  return { box, sent, heard, sender };
}

describe("the sender", () => {
  it("sends in order and says which answer is the last", async () => {
    const { box, sent, heard, sender } = desk(() => ({}));
    ["a", "b", "c"].forEach((key) => box.add(wish(key)));
    sender.nudge();
    await vi.waitFor(() => expect(box.mine()).toEqual([]));
    expect(sent).toEqual(["a", "b", "c"]);
    expect(heard).toEqual(["stored a", "stored b", "stored c!"]);
  });

  it("sends the same key again until the server answers", async () => {
    const { box, sent, heard, sender } = desk((_, calls) => {
      if (calls.length < 3) throw new Failure("away", "no answer");
      return {};
    });
    box.add(wish("a"));
    sender.nudge();
    await vi.waitFor(() => expect(box.mine()).toEqual([]), 3000);
    expect(sent).toEqual(["a", "a", "a"]);
    expect(heard).toEqual(["away", "away", "stored a!"]);
  });

  it("puts what the server refuses aside and goes on", async () => {
    const { box, heard, sender } = desk((key) => {
      if (key === "a") throw new Failure("refused", "no such item", 404);
      return {};
    });
    box.add(wish("a"));
    box.add(wish("b"));
    sender.nudge();
    await vi.waitFor(() => expect(box.mine()).toEqual([]));
    expect(heard).toEqual(["refused a", "stored b!"]);
    expect(box.refused()[0]?.entry.key).toBe("a");
  });

  it("waits while it is locked out, and loses nothing", async () => {
    const { box, heard, sender } = desk((_, calls) => {
      if (calls.length < 2) throw new Failure("locked", "log in first", 401);
      return {};
    });
    box.add(wish("a"));
    sender.nudge();
    await vi.waitFor(() => expect(box.mine()).toEqual([]), 3000);
    expect(heard).toEqual(["locked", "stored a!"]);
  });

  it("does not give a label to the item of another project that has the same number", async () => {
    const { box, sent, heard, sender } = desk(() => ({}), "somebody-else.png");
    box.add(wish("a"));
    box.adopt("t"); // left over: tried before
    sender.nudge();
    await vi.waitFor(() => expect(box.mine()).toEqual([]));
    expect(sent).toEqual([]);
    expect(heard).toEqual(["refused a"]);
  });

  it("says how long a decision waited, where that is worth saying", async () => {
    const box = new Outbox(new MemoryStorage(), "p", "t");
    const sent: Record<string, unknown>[] = [];
    const nothing = () => undefined;
    const sender = new Sender(
      box,
      { post: async (_, body) => void sent.push(body as Record<string, unknown>), idOf: async () => "item-1" },
      { stored: nothing, refused: nothing, away: nothing, locked: nothing, back: nothing },
    );
    box.add({ ...wish("late"), at: Date.now() - 60_000 });
    box.add({ ...wish("now"), at: Date.now() });
    box.add(wish("of an older page"));
    box.add({ ...wish("undo"), path: "api/undo", at: Date.now() - 60_000 });
    sender.nudge();
    await vi.waitFor(() => expect(box.mine()).toEqual([]));
    expect(sent[0]?.ago).toBeGreaterThanOrEqual(60);
    expect(sent.slice(1).map((body) => "ago" in body)).toEqual([false, false, false]);
  });
});
