// Before the first item: who are you, and is everything ready?
import type { TargetedEvent } from "preact";
import { useState } from "preact/hooks";
import { Failure, post } from "../api.ts";
import { name } from "../settings.ts";
import { lockedWords, may, status, waiting } from "../state.ts";
import { number, percent, plural, sentence } from "../words.ts";

/** What the audit items can show, before the first of them is asked; more of them where that would help. */
function Outlook({ raise, onRaise }: { raise: boolean; onRaise: (wanted: boolean) => void }) {
  const now = status.value;
  if (!now?.audit || now.labelled > 0 || !may("owner")) return null;
  const { line, raise_to: better, share } = now.audit;
  return (
    <div class="outlook" data-testid="outlook">
      <p class="faint small">{line}</p>
      {better !== null && (
        <label class="check">
          <input
            type="checkbox"
            data-testid="outlook-raise"
            checked={raise}
            onChange={(event) => onRaise(event.currentTarget.checked)}
          />
          <span>
            Raise their share from {percent(share)} of the items to {percent(better)}
            <small>Audit items only measure: models do not learn from them</small>
          </span>
        </label>
      )}
    </div>
  );
}

export function Welcome({ login, onReady }: { login: boolean; onReady: (name: string, raise: boolean) => Promise<void> }) {
  const [typed, setTyped] = useState(name.value);
  const [password, setPassword] = useState("");
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  const [raise, setRaise] = useState(false);
  const start = async (event: TargetedEvent<HTMLFormElement>) => {
    event.preventDefault();
    const who = typed.trim();
    if (who === "") return setTrouble("Give a name, so that others see who labelled what.");
    setBusy(true);
    try {
      if (login) await post("api/login", { annotator: who, password });
      await onReady(who, raise);
    } catch (error) {
      setTrouble(sentence(error instanceof Failure ? error.message : String(error)));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="welcome">
      <form class="card" onSubmit={(event) => void start(event)}>
        <svg class="logo" viewBox="0 0 32 32" width="44" height="44" aria-hidden="true">
          <rect width="32" height="32" rx="8" />
          <path d="M9 8v9a7 7 0 0 0 14 0V8" />
          <circle cx="16" cy="15" r="2.4" />
        </svg>
        <h1>
          {status.value ? (
            <>
              Label <em>{status.value.project}</em>
            </>
          ) : (
            "Understudy"
          )}
        </h1>
        <p>One key labels an item; the next one is chosen to teach the most. Who are you?</p>
        <label>
          Your name
          <input
            class="field"
            data-testid="name-input"
            type="text"
            autocomplete="nickname"
            maxLength={64}
            value={typed}
            autoFocus
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        {login && (
          <label>
            Password
            <input
              class="field"
              data-testid="password-input"
              type="password"
              autocomplete="current-password"
              maxLength={256}
              value={password}
              onInput={(event) => setPassword(event.currentTarget.value)}
            />
          </label>
        )}
        <Outlook raise={raise} onRaise={setRaise} />
        {trouble && (
          <p class="trouble" role="alert" data-testid="welcome-trouble">
            {trouble}
          </p>
        )}
        <button type="submit" class="main" data-testid="start" disabled={busy}>
          {login ? "Log in" : "Start"}
        </button>
      </form>
    </main>
  );
}

const SETUP_PHASES: Record<string, string> = {
  basis: "finding basis points",
  width: "finding the width of the kernel",
  rows: "computing each item’s row",
};

function SettingUp({ phase, share }: { phase: string; share: number }) {
  return (
    <>
      <div
        class="meter big"
        role="progressbar"
        aria-label="Set-up"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(100 * share)}
        data-testid="setting-up"
      >
        <span style={{ width: percent(share, 1) }} />
      </div>
      <p class="faint">
        All items are read; building what chooses the items: {SETUP_PHASES[phase] ?? phase}
      </p>
    </>
  );
}

export function Preparing() {
  const now = status.value;
  if (!now) return null;
  const share = now.total > 0 ? now.done / now.total : 0;
  return (
    <main class="welcome">
      <div class="card" data-testid="preparing">
        <h1>
          Preparing <em>{now.project}</em>
        </h1>
        <p>
          Every item is looked at once, so that the first question is already a good one. Labelling starts by itself.
        </p>
        {now.setup ? (
          <SettingUp {...now.setup} />
        ) : now.total > 0 && now.done >= now.total ? (
          <p class="faint" role="status" data-testid="building">
            <span class="busy-dot" aria-hidden="true" /> All {number(now.total)} items are read; building what
            chooses the items…
          </p>
        ) : (
          <>
            <div
              class="meter big"
              role="progressbar"
              aria-label="Items prepared"
              aria-valuemin={0}
              aria-valuemax={now.total}
              aria-valuenow={now.done}
            >
              <span style={{ width: percent(share, 1) }} />
            </div>
            <p class="faint">
              {number(now.done)} of {number(now.total)} items
            </p>
          </>
        )}
      </div>
    </main>
  );
}

/** The token that this browser has does not count any more: a new link was issued, or this person has retired. */
export function Locked() {
  const n = waiting.value;
  return (
    <main class="welcome">
      <div class="card" role="alert" data-testid="locked">
        <h1>You cannot come in here now</h1>
        <p>{lockedWords.value ? sentence(lockedWords.value) : "Open your personal link again."}</p>
        {n > 0 && (
          <p class="faint">
            {plural(n, "decision waits", "decisions wait")} in this browser, to be sent when you come in again.
          </p>
        )}
      </div>
    </main>
  );
}
