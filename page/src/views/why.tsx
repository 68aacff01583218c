// Why this item is asked for: one line, more on request. It is fetched once the item is on the screen.
import { useEffect, useState } from "preact/hooks";
import { Failure, get } from "../api.ts";
import { Thumb } from "../item.tsx";
import { whyOpen } from "../settings.ts";
import { away } from "../state.ts";
import type { Why } from "../types.ts";
import { percent } from "../words.ts";

const PAUSE = 200; // ms: who is that fast does not read it
const AGAIN = 2000;
const AWAY = "Available again when the server is back.";

export function WhyThisOne({ item, kind }: { item: number; kind: string }) {
  const [why, setWhy] = useState<Why | null>(null);
  const gone = away.value;
  useEffect(() => {
    if (why?.item === item || gone) return;
    let wanted = true;
    setWhy(null);
    const ask = () =>
      get<Why>(`api/items/${item}/why`).then(
        (answer) => wanted && setWhy(answer),
        (error: unknown) => {
          const passes = error instanceof Failure && error.trouble === "away";
          if (wanted && passes) timer = setTimeout(() => void ask(), AGAIN);
        },
      );
    let timer = setTimeout(() => void ask(), PAUSE);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [item, gone]);
  const open = whyOpen.value;
  const has = why && why.item === item && (why.teaches.length > 0 || why.nearest.length > 0);
  return (
    <section class="why" data-testid="why" aria-label="Why this one?">
      <button
        type="button"
        class="why-line"
        aria-expanded={open}
        onClick={() => (whyOpen.value = !open)}
        title="More or less (w)"
      >
        <span class="why-mark">Why this one?</span>
        <span class="why-words">{why?.item === item ? why.line : gone ? AWAY : " "}</span>
        <span class={open ? "chevron open" : "chevron"} aria-hidden="true">
          ›
        </span>
      </button>
      {open && (
        <div
          class={kind === "text" ? "why-more texts" : "why-more"}
          tabIndex={0}
          role="region"
          aria-label="What it would teach, and what lies near"
        >
          {has && why.teaches.length > 0 && (
            <div>
              <h2>It would teach most about</h2>
              <div class="thumbs">
                {why.teaches.slice(0, 6).map((row) => (
                  <figure key={row.item}>
                    <Thumb item={row.item} kind={kind} alt={`item ${row.item}`} />
                    <figcaption title="share of its uncertainty that would go">{percent(row.share)}</figcaption>
                  </figure>
                ))}
              </div>
            </div>
          )}
          {has && why.nearest.length > 0 && (
            <div>
              <h2>Nearest labelled items</h2>
              <div class="thumbs">
                {why.nearest.slice(0, 6).map((row) => (
                  <figure key={row.item}>
                    <Thumb item={row.item} kind={kind} alt={`item ${row.item}, ${row.label ?? "no label"}`} />
                    <figcaption title={`distance ${row.distance.toFixed(2)} of the pool’s mean`}>
                      {row.label ?? "–"}
                    </figcaption>
                  </figure>
                ))}
              </div>
            </div>
          )}
          {!has && <p class="faint">{why ? "Nothing more to show for this one." : " "}</p>}
        </div>
      )}
    </section>
  );
}
