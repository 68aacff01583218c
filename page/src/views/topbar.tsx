// The numbers that are always on the page.
import { BalanceBars, Spark } from "../charts.tsx";
import { away, counted, curve, dialog, me, refusedCount, sendAway, status, view, viewShown, views, waiting } from "../state.ts";
import type { View } from "../state.ts";
import { outbox } from "../desk.ts";
import { trainingWords } from "../training.ts";
import { number, percent, plural, sentence } from "../words.ts";

const NAMES: Record<Exclude<View, "map">, string> = {
  label: "Label",
  browse: "Browse",
  grid: "Grid",
  review: "Review",
  progress: "Progress",
  export: "Export",
};
const ICONS: Record<Exclude<View, "map">, string> = {
  label: "M4 4h7l9 9-7 7-9-9z M8 8h.01",
  browse: "M10 4a6 6 0 1 0 .01 0z M15 15l5 5",
  grid: "M4 4h6v6H4z M14 4h6v6h-6z M4 14h6v6H4z M14 14h6v6h-6z",
  review: "M4 12l5 5L20 6",
  progress: "M4 19h16 M5 15l5-5 4 3 6-8",
  export: "M12 4v11 M7 10l5 5 5-5 M5 20h14",
};

/** The views: in the top bar, and a second time at the bottom for thumbs, where only one of the two is ever seen. */
export function Nav({ below = false }: { below?: boolean }) {
  const suspicious = status.value?.suspicious ?? 0;
  const disputed = status.value?.disputed ?? 0;
  return (
    <nav class="nav" aria-label="Views">
      {views.value.map((each) => (
        <a
          key={each}
          href={`#/${each}`}
          data-testid={below ? `thumb-${each}` : `nav-${each}`}
          aria-current={each === viewShown.value || (each === "browse" && viewShown.value === "map") ? "page" : undefined}
          onClick={() => {
            view.value = each;
            document.getElementById("main")?.focus({ preventScroll: true }); // also where it is open already
          }}
        >
          <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
            <path d={ICONS[each]} />
          </svg>
          {NAMES[each]}
          {each === "review" && suspicious + disputed > 0 && (
            <span
              class="badge"
              data-testid={below ? undefined : "review-badge"}
              title={`${plural(suspicious, "label")} to review, ${plural(disputed, "disputed item")}`}
            >
              {suspicious + disputed}
            </span>
          )}
        </a>
      ))}
    </nav>
  );
}

function initials(name: string): string {
  const words = name.split(/\s+/).filter(Boolean);
  return (words.length > 1 ? (words[0]?.[0] ?? "") + (words.at(-1)?.[0] ?? "") : name.slice(0, 2)).toUpperCase();
}

export function TopBar() {
  const now = status.value;
  if (!now) return null;
  const { training, interval, accuracy } = now;
  const tone = training.state === "failed" ? "bad" : training.state === "running" ? "busy" : "idle";
  return (
    <header class="top">
      <a
        class="brand"
        href={me.value?.several ? "../../" : "#/label"}
        data-testid="brand"
        title={me.value?.several ? `${now.project}: to all projects` : `Understudy: ${now.project}`}
      >
        {me.value?.several && (
          <svg class="up" viewBox="0 0 24 24" width="16" height="16" aria-hidden="true">
            <path d="M15 5l-7 7 7 7" />
          </svg>
        )}
        <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
          <rect width="32" height="32" rx="8" />
          <path d="M9 8v9a7 7 0 0 0 14 0V8" />
          <circle cx="16" cy="15" r="2.4" />
        </svg>
        <span class="project">{now.project}</span>
      </a>
      <Nav />
      <div class="stats">
        <span class="stat" title={`${number(now.labelled)} of ${number(now.total)} items have a label`}>
          <b data-testid="labelled-count">{number(now.labelled)}</b>
          <span class="of"> / {number(now.total)}</span>
          <span class="unit"> labelled</span>
        </span>
        <a
          class="stat accuracy"
          href="#/progress"
          data-testid="accuracy"
          title={
            interval
              ? `The last model is right on ${percent(accuracy ?? 0, 1)} of ${now.audited} random audit items. 95% confidence interval: ${percent(interval[0], 1)} to ${percent(interval[1], 1)}.`
              : "Measured on random audit items, after the first training."
          }
        >
          {accuracy === null ? (
            <span class="faint">accuracy –</span>
          ) : (
            <>
              <b>{percent(accuracy, 1)}</b>
              {interval && (
                <span class="interval">
                  {" "}
                  {(100 * interval[0]).toFixed(0)}–{(100 * interval[1]).toFixed(0)}
                </span>
              )}
            </>
          )}
          <Spark curve={curve.value} />
        </a>
        <span class="stat bars-stat">
          <BalanceBars classes={counted.value} />
        </span>
        <span
          class={`stat training ${tone}`}
          data-testid="training"
          data-state={training.state}
          title={
            training.reason ??
            (training.at_labels === null ? "No model yet" : `The model in use has learnt ${training.at_labels} labels`)
          }
        >
          <span class="dot" /> <span class="training-words">{trainingWords(now)}</span>
        </span>
        <span
          class="stat online"
          data-testid="online"
          data-count={now.online.length}
          title={now.online.length ? `Online: ${now.online.join(", ")}` : "Nobody online"}
        >
          {now.online.slice(0, 3).map((who) => (
            <span key={who} class="who">
              {initials(who)}
            </span>
          ))}
          {now.online.length > 3 && <span class="who more">+{now.online.length - 3}</span>}
          <span class="unseen">{plural(now.online.length, "person", "people")} online</span>
        </span>
        <span
          class={away.value ? "stat link off" : "stat link"}
          data-testid="connection"
          data-state={away.value ? "away" : "connected"}
          title={away.value ? "The server does not answer; trying again" : "Connected"}
        >
          <span class="dot" />
          <span class="unseen">{away.value ? "server away" : "connected"}</span>
        </span>
        <button
          type="button"
          class="quiet round"
          aria-label="Settings"
          title="Settings"
          data-testid="settings"
          onClick={() => (dialog.value = "settings")}
        >
          <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
            <path d="M4 7h9 M19 7h1 M4 17h1 M11 17h9" />
            <circle cx="16" cy="7" r="2.5" />
            <circle cx="8" cy="17" r="2.5" />
          </svg>
        </button>
        <button
          type="button"
          class="quiet round"
          aria-label="Help: all keys"
          title="All keys (?)"
          data-testid="help"
          onClick={() => (dialog.value = "help")}
        >
          ?
        </button>
      </div>
    </header>
  );
}

const LINES = 3; // of blocks in trouble: more would leave no room for the item

/** Calm words about what is not as usual. Nothing is lost, and it says so. */
export function Banner() {
  const failure = sendAway.value;
  const n = waiting.value;
  const kept = outbox()?.isVolatile ? "keep this page open" : "nothing is lost";
  const cannot = failure && failure.status >= 500 ? failure.message : null;
  const slowOrLost = status.value?.slow_or_lost ?? []; // blocks of a pool on a cluster; only owners are told
  return (
    <>
      {away.value && (
        <div class="banner" role="status" data-testid="banner">
          {cannot ? `The server cannot store just now (${cannot})` : "Server away"}:{" "}
          <span data-testid="queue-count">{n}</span> {n === 1 ? "label waits" : "labels wait"} here, {kept}.
        </div>
      )}
      {slowOrLost.length > 0 && (
        <div class="banner" role="status" data-testid="slow-or-lost">
          {slowOrLost.slice(0, LINES).map((line) => (
            <div key={line}>{sentence(line)}</div>
          ))}
          {slowOrLost.length > LINES && <div>And {plural(slowOrLost.length - LINES, "further block")}.</div>}
        </div>
      )}
      {refusedCount.value > 0 && (
        <div class="banner bad" role="alert" data-testid="refused">
          {plural(refusedCount.value, "decision")} could not be stored.{" "}
          <button type="button" onClick={() => (dialog.value = "refused")}>
            See which, and why
          </button>
        </div>
      )}
    </>
  );
}
