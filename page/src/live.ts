// The server's own news. The browser's way of trying again is too slow for us, so we try ourselves.
import { get } from "./api.ts";
import { Failure } from "./api.ts";
import { annotator, leased, liveAway, locked, take, takeMe } from "./state.ts";
import type { Me, Status } from "./types.ts";

const SILENCE = 40_000; // the server says something every 15 seconds
let source: EventSource | null = null;
let wait = 300;
let timer = 0;
let watchdog = 0;

export function listen(who: string | null, back: () => void): void {
  clearTimeout(timer);
  source?.close();
  const address = who === null ? "api/live" : `api/live?annotator=${encodeURIComponent(who)}`;
  leased.value = null; // another person's, perhaps
  const mine = new EventSource(address);
  source = mine;
  const heard = () => {
    clearTimeout(watchdog);
    watchdog = window.setTimeout(failed, SILENCE);
  };
  const failed = () => {
    if (source !== mine) return;
    mine.close();
    clearTimeout(watchdog);
    liveAway.value = true;
    timer = window.setTimeout(() => void again(), wait);
    wait = Math.min(5000, wait * 2);
  };
  const again = async () => {
    try {
      take(await get<Status>("api/status", 5000));
    } catch (error) {
      if (error instanceof Failure && error.trouble === "locked") locked.value = true;
      else return failed();
    }
    listen(who === null ? null : (annotator.value ?? who), back); // they may have been renamed
  };
  mine.onopen = () => {
    heard();
    wait = 300;
    liveAway.value = false;
    locked.value = false;
    back();
  };
  mine.addEventListener("status", (event) => {
    heard();
    take(JSON.parse((event as MessageEvent<string>).data) as Status);
  });
  mine.addEventListener("lease", (event) => {
    heard();
    leased.value = JSON.parse((event as MessageEvent<string>).data) as { item: number; lease: number };
  });
  mine.addEventListener("me", (event) => {
    heard();
    takeMe(JSON.parse((event as MessageEvent<string>).data) as Me);
  });
  mine.addEventListener("heartbeat", heard);
  mine.addEventListener("ping", heard);
  mine.onerror = failed;
}
