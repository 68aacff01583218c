// Decisions on their way to the server. Each lies in the browser's storage under a name of its own, so that two tabs
// never overwrite each other's, and goes only when the server has said that it is stored, or that it never will be.

export interface Entry {
  key: string; // the server's protection against storing it twice
  order: number;
  tab: string; // the tab that sends it
  tries: number; // 0: the server has certainly not seen it
  path: string;
  body: Record<string, unknown>;
  item: number | null;
  id: string | null; // the item's name: shows after a restart whether the server still means the same item
  words: string; // for people: "cat", "skip"
  at?: number; // when it was decided, by the clock on the wall: it may wait until the browser is started again
}

export interface Lost {
  entry: Entry;
  reason: string;
}

export type Wish = Pick<Entry, "key" | "path" | "body" | "item" | "id" | "words" | "at">;

export class Outbox {
  private readonly out: string;
  private readonly refusedName: string;
  private readonly unsaved = new Map<string, Entry>(); // only where the browser's storage is full or forbidden

  constructor(
    private readonly storage: Storage,
    readonly project: string,
    readonly tab: string,
  ) {
    this.out = `understudy:${project}:out:`;
    this.refusedName = `understudy:${project}:refused`;
  }

  /** All that waits, of all tabs or of one, in order. */
  entries(tab?: string): Entry[] {
    const found = [...this.unsaved.values()];
    for (let i = 0; i < this.storage.length; i++) {
      const name = this.storage.key(i);
      if (!name?.startsWith(this.out)) continue;
      try {
        const entry = JSON.parse(this.storage.getItem(name) ?? "null") as Entry | null;
        if (entry && typeof entry.path === "string" && !this.unsaved.has(entry.key)) found.push(entry);
      } catch {
        // not ours: leave it lying
      }
    }
    found.sort((a, b) => a.order - b.order || (a.key < b.key ? -1 : 1));
    return tab === undefined ? found : found.filter((entry) => entry.tab === tab);
  }

  mine(): Entry[] {
    return this.entries(this.tab);
  }

  add(wish: Wish): Entry {
    // Numbered, not dated: a clock that jumps must not change the order.
    const order = 1 + Math.max(0, ...this.entries().map((entry) => entry.order));
    const entry: Entry = { ...wish, order, tab: this.tab, tries: 0 };
    this.put(entry);
    return entry;
  }

  put(entry: Entry): void {
    try {
      this.storage.setItem(this.nameOf(entry), JSON.stringify(entry));
      this.unsaved.delete(entry.key);
    } catch {
      this.unsaved.set(entry.key, entry);
    }
  }

  remove(entry: Entry): void {
    this.storage.removeItem(this.nameOf(entry));
    this.unsaved.delete(entry.key);
  }

  /** Tabs other than this one that have left something. */
  otherTabs(): string[] {
    return [...new Set(this.entries().map((entry) => entry.tab))].filter((tab) => tab !== this.tab);
  }

  /** From now on this tab sends what another has left. The caller makes sure that the other is gone. */
  adopt(tab: string): void {
    for (const entry of this.entries(tab)) this.put({ ...entry, tab: this.tab, tries: Math.max(1, entry.tries) });
  }

  refused(): Lost[] {
    try {
      return JSON.parse(this.storage.getItem(this.refusedName) ?? "[]") as Lost[];
    } catch {
      return [];
    }
  }

  refuse(entry: Entry, reason: string): void {
    try {
      this.storage.setItem(this.refusedName, JSON.stringify([...this.refused(), { entry, reason }].slice(-200)));
    } catch {
      // it was shown; nowhere to keep it
    }
    this.remove(entry);
  }

  forgetRefusedEntry(key: string): void {
    const rest = this.refused().filter((lost) => lost.entry.key !== key);
    this.storage.setItem(this.refusedName, JSON.stringify(rest));
  }

  forgetRefused(): void {
    this.storage.removeItem(this.refusedName);
  }

  get isVolatile(): boolean {
    return this.unsaved.size > 0;
  }

  private nameOf(entry: Entry): string {
    return this.out + entry.key;
  }
}
