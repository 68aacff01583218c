// Sends the outbox, one decision after the other, for as long as it takes.
import { Failure } from "./api.ts";
import type { Entry, Outbox } from "./outbox.ts";

export interface Listener {
  stored(entry: Entry, reply: unknown, isLast: boolean): void;
  refused(entry: Entry, failure: Failure): void;
  away(failure: Failure): void;
  locked(): void;
  back(): void;
}

export interface Post {
  post(path: string, body: unknown): Promise<unknown>;
  idOf(item: number): Promise<string>;
}

const FIRST_WAIT = 300;
const LONGEST_WAIT = 5000;
const PATIENCE = 20; // answers "500" before a decision is given up and shown

const DATED = new Set(["labels", "labels/many", "skip", "dont-know", "bad", "flag", "keep"].map((path) => `api/${path}`));

/** What waited says for how long, so that it keeps the time at which it was decided. */
function withAge(entry: Entry): Record<string, unknown> {
  const ago = entry.at === undefined ? 0 : (Date.now() - entry.at) / 1000;
  return DATED.has(entry.path) && ago >= 1 ? { ...entry.body, ago } : entry.body;
}

export class Sender {
  private running = false;
  private wait = FIRST_WAIT;
  private wake: (() => void) | null = null;
  sending: string | null = null; // key of the decision that is under way

  constructor(
    private readonly box: Outbox,
    private readonly server: Post,
    private readonly listener: Listener,
  ) {}

  /** There is something to send, or the server may be back: do not wait any longer. */
  kick(): void {
    this.wait = FIRST_WAIT;
    this.wake?.();
    if (!this.running) void this.run();
  }

  /** There is something to send; a wait for a server that is away goes on. */
  nudge(): void {
    if (!this.running) void this.run();
  }

  private async run(): Promise<void> {
    this.running = true;
    try {
      for (let entry = this.box.mine()[0]; entry; entry = this.box.mine()[0]) await this.send(entry);
    } finally {
      this.running = false;
      this.sending = null;
    }
  }

  private async send(entry: Entry): Promise<void> {
    try {
      if (entry.tries > 0 && entry.item !== null && entry.id !== null) await this.checkSameItem(entry);
      this.sending = entry.key;
      const tried = { ...entry, tries: entry.tries + 1 };
      this.box.put(tried); // before it goes out: after a crash nobody knows whether it arrived
      const reply = await this.server.post(entry.path, withAge(entry));
      this.box.remove(tried);
      this.wait = FIRST_WAIT;
      this.listener.back();
      this.listener.stored(tried, reply, this.box.mine().length === 0);
    } catch (error) {
      const failure = error instanceof Failure ? error : new Failure("refused", String(error));
      const hopeless = failure.status === 500 && entry.tries >= PATIENCE;
      if (failure.trouble === "refused" || hopeless) {
        this.box.refuse(entry, failure.message);
        this.listener.back();
        this.listener.refused(entry, failure);
        return;
      }
      if (failure.trouble === "locked") this.listener.locked();
      else this.listener.away(failure);
      await this.pause();
    } finally {
      this.sending = null;
    }
  }

  /** Another project may be served at this address since: its item 7 is not ours. */
  private async checkSameItem(entry: Entry): Promise<void> {
    const id = await this.server.idOf(entry.item as number);
    if (id !== entry.id) {
      throw new Failure(
        "refused",
        `item ${entry.item} was “${entry.id}” and is “${id}” now: is another project served here?`,
        409,
      );
    }
  }

  private pause(): Promise<void> {
    const time = this.wait;
    this.wait = Math.min(LONGEST_WAIT, this.wait * 2);
    return new Promise((resolve) => {
      const timer = setTimeout(done, time);
      const self = this;
      function done() {
        clearTimeout(timer);
        self.wake = null;
        resolve();
      }
      this.wake = done;
    });
  }
}
