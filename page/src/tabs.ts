// Which tab may send what. A tab holds a lock under its own name while it lives; what a dead tab has left is taken over
// by whoever gets that lock. Browsers lend locks to safe origins only; elsewhere a sign of life in the storage has to do
// (should both send, the keys keep it one label).
import type { Outbox } from "./outbox.ts";

const STALE = 90_000; // timers of hidden tabs fire once a minute
const alive = (tab: string) => `understudy:alive:${tab}`;
const lockOf = (tab: string) => `understudy-tab-${tab}`;

export function holdTab(tab: string): void {
  if (navigator.locks) {
    void navigator.locks.request(lockOf(tab), () => new Promise<void>(() => undefined));
    return;
  }
  const sign = () => {
    try {
      localStorage.setItem(alive(tab), String(Date.now()));
    } catch {
      // then nobody waits for us either
    }
  };
  sign();
  setInterval(sign, 5000);
  addEventListener("pagehide", () => localStorage.removeItem(alive(tab)));
  addEventListener("pageshow", sign);
}

export async function adoptOrphans(box: Outbox): Promise<void> {
  for (const tab of box.otherTabs()) {
    if (navigator.locks) {
      await navigator.locks.request(lockOf(tab), { ifAvailable: true }, (lock) => {
        if (lock) box.adopt(tab);
      });
    } else {
      const age = Math.abs(Date.now() - Number(localStorage.getItem(alive(tab)) ?? 0));
      if (age > STALE) {
        localStorage.removeItem(alive(tab));
        box.adopt(tab);
      }
    }
  }
}
