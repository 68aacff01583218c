// The main view: one item, one key.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import {
  answered,
  decideElsewhere,
  flag,
  flagWithNote,
  goOnHere,
  label,
  lastWords,
  put,
  screen,
  stale,
  stranded,
  undo,
} from "../desk.ts";
import { lookForCopies, pressCopies } from "../copies.ts";
import { belongsToFocus, consume } from "../focus.ts";
import { Columns, Item, ZoomControl } from "../item.tsx";
import { classOfKey, isTyping, keyOf, nameOf, shownKey } from "../keys.ts";
import type { Action } from "../keys.ts";
import { keyMap, suggestions, whyOpen } from "../settings.ts";
import { allowed, className, classView, classes, dialog, may, numberOf, offered, status, waiting } from "../state.ts";
import type { OwnWork } from "../types.ts";
import { likelihood, plural } from "../words.ts";
import { STEP, panByKey, toggleZoom, zoomBy } from "../zoom.ts";
import { ClassButtons, FindClass } from "./classes.tsx";
import { CopiesButton, NearCopies } from "./near_copies.tsx";
import { FlagNote } from "./flag_note.tsx";
import { CalibrationLine, FeaturesLine, FolderLine, FolderQuestion, LookForItems } from "./notes.tsx";
import { OwnProgress } from "./team.tsx";
import { WhyThisOne } from "./why.tsx";

const accept = () => {
  const guess = screen.value?.question.suggestion;
  if (suggestions.value && guess != null) label(guess);
};

const DO: Partial<Record<Action, () => unknown>> = {
  skip: () => put("skip"),
  unknown: () => put("dont-know"),
  bad: () => put("bad"),
  flag,
  note: () => screen.value?.question.item != null && (dialog.value = "note"),
  undo,
  accept,
  suggest: () => (suggestions.value = !suggestions.value),
  why: () => (whyOpen.value = !whyOpen.value),
  find: () => (dialog.value = "find"),
  classes: () => (dialog.value = "classes"),
  help: () => (dialog.value = "help"),
  copies: pressCopies,
  zoom: toggleZoom,
  larger: () => zoomBy(STEP),
  smaller: () => zoomBy(1 / STEP),
};
const REPEATED: readonly (Action | null)[] = ["undo", "larger", "smaller"]; // while the key is held down

function onKey(event: KeyboardEvent): void {
  if (dialog.value !== null || isTyping(event.target)) return;
  const key = nameOf(event);
  if (key === null || belongsToFocus(key, event.target)) return;
  if (stale.value) {
    if (key !== "Enter") return;
    consume(event);
    return void goOnHere();
  }
  const map = keyMap.value;
  const index = classOfKey(key, classes.value, map, classView.value);
  const action =
    (Object.keys(DO) as Action[]).find((each) => keyOf(each, map) === key) ??
    (key === "Ctrl+z" ? "undo" : key === "h" ? "help" : key === "=" ? "larger" : null);
  if (index === null && action === null) {
    if (panByKey(key)) consume(event);
    return;
  }
  consume(event);
  if (event.repeat && !REPEATED.includes(action)) return; // a key held down is one answer
  if (action !== null && (index === null || map[action])) DO[action]?.();
  else if (index !== null) label(index);
}

function ActionButton({
  action,
  testid,
  children,
  onClick,
  pressed,
  title,
  off,
}: {
  action: Action;
  testid: string;
  children: ComponentChildren;
  onClick: () => void;
  pressed?: boolean;
  title: string;
  off?: boolean;
}) {
  const key = shownKey(keyOf(action, keyMap.value));
  return (
    <button
      type="button"
      class={pressed ? "act pressed" : "act"}
      data-testid={testid}
      title={`${title} (${key})`}
      aria-pressed={pressed}
      disabled={off}
      onClick={onClick}
    >
      {children} <kbd>{key}</kbd>
    </button>
  );
}

function AllDone({ reason, work }: { reason: string | null; work: OwnWork | null }) {
  const now = status.value;
  const full = work?.quota != null && work.labels >= work.quota;
  return (
    <div class="card done" data-testid="all-done">
      <div class="tick-mark" aria-hidden="true">
        ✓
      </div>
      <h1>{full ? "Your labels are all given" : now && now.labelled >= now.total ? "All done" : "Nothing to ask right now"}</h1>
      <p>{reason ?? "Every item has been dealt with."}</p>
      {work && <OwnProgress work={work} />}
      {may("owner") && <FolderLine />}
      <div class="row">
        {now && now.skipped > 0 && (
          <button
            type="button"
            class="main"
            data-testid="put-back-skipped"
            onClick={() =>
              decideElsewhere("api/put-back", { what: "skipped" }, { item: null, id: null }, "skipped items put back")
            }
          >
            {may("reviewer") ? `Look at ${plural(now.skipped, "skipped item")} again` : "Look again at what you skipped"}
          </button>
        )}
        {may("reviewer") && (
          <a class="button" href="#/review">
            Review{now?.suspicious ? ` (${now.suspicious})` : ""}
          </a>
        )}
        {may("owner") && (
          <a class="button" href="#/export">
            Export
          </a>
        )}
        <LookForItems />
        <button type="button" onClick={undo} data-testid="undo">
          Undo <kbd>{shownKey(keyOf("undo", keyMap.value))}</kbd>
        </button>
      </div>
    </div>
  );
}

export function LabelView() {
  const stage = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const now = screen.value;
  const question = now?.question;
  const wantsCopies = allowed.value.copies && now?.content != null;
  useLayoutEffect(
    () => (wantsCopies && question?.item != null ? lookForCopies(question.item) : undefined),
    [wantsCopies, question?.item],
  );
  if (status.value?.folders?.taken_for === "undecided") return <FolderQuestion />;
  const said = answered.value;
  // After a click the focus goes to the item, so that the keys work at once and Space is not a second click.
  const click = (act: () => void) => () => {
    act();
    stage.current?.focus({ preventScroll: true });
  };
  if (!now || !question)
    return (
      <p class="centre faint" role="status">
        Fetching the first item…
      </p>
    );
  if (question.item === null) return <AllDone reason={question.reason} work={question.work} />;
  const mayGuess = allowed.value.suggestions;
  const showGuess = suggestions.value && mayGuess;
  const guess = showGuess && said === null ? question.suggestion : null;
  const chosen = said !== null ? numberOf(said) : (question.mine ?? null);
  const behind = stale.value;
  const idle = stranded.value || behind;
  return (
    <div class={said === null || idle ? "label" : "label answered"}>
      <h1 class="unseen">Label {status.value?.project}</h1>
      <section class="stage" ref={stage} tabIndex={-1} aria-label="Item to label">
        {behind ? (
          <div class="card" role="alert" data-testid="stale">
            <h2>You went on elsewhere</h2>
            <p>In another tab or on another device. This item was dealt with there, or waits no longer.</p>
            <button type="button" class="main" data-testid="go-on-here" onClick={() => void goOnHere()}>
              Go on here <kbd>Enter</kbd>
            </button>
          </div>
        ) : stranded.value ? (
          <div class="card" data-testid="stranded">
            <h2>Waiting for the server</h2>
            <p>
              {waiting.value > 0
                ? `${plural(waiting.value, "decision waits", "decisions wait")} here and will be sent. `
                : ""}
              All items that were fetched ahead are done. This page goes on by itself.
            </p>
          </div>
        ) : (
          now.content && <Item content={now.content} item={question.item} id={question.id ?? String(question.item)} />
        )}
        {!idle && <Columns item={question.item} columns={question.columns} />}
        <div class="caption">
          <CopiesButton off={idle} />
          <div class="item-id" title={question.id ?? ""}>
            {question.id}
            {question.flagged && (
              <>
                <span class="flagged"> ⚑ flagged{question.note && `: ${question.note}`}</span>{" "}
                <button type="button" class="plain" data-testid="edit-note" disabled={idle} onClick={() => (dialog.value = "note")}>
                  {question.note ? "Change the note" : "Add a note"}
                </button>
              </>
            )}
          </div>
          {!idle && now.content?.kind === "image" && <ZoomControl />}
        </div>
      </section>
      <div class="below">
        {!idle && <NearCopies />}
        <div class="acts" role="group" aria-label="Other answers">
          <ActionButton
            action="skip"
            testid="skip"
            title="Not now: it may come again"
            off={idle}
            onClick={click(() => put("skip"))}
          >
            Skip
          </ActionButton>
          <ActionButton
            action="unknown"
            testid="unknown"
            title="I cannot tell: others may be asked"
            off={idle}
            onClick={click(() => put("dont-know"))}
          >
            Don’t know
          </ActionButton>
          <ActionButton
            action="bad"
            testid="bad"
            title="Broken, private or off topic: out of the pool"
            off={idle}
            onClick={click(() => put("bad"))}
          >
            Bad item
          </ActionButton>
          <ActionButton
            action="flag"
            testid="flag"
            title="Somebody should look at it; you can still label it"
            pressed={question.flagged}
            off={idle}
            onClick={click(flag)}
          >
            Flag
          </ActionButton>
          <ActionButton
            action="undo"
            testid="undo"
            title="Take back your last decision"
            off={behind}
            onClick={click(undo)}
          >
            Undo{lastWords.value ? <span class="last"> “{lastWords.value}”</span> : null}
          </ActionButton>
        </div>
        <WhyThisOne item={question.item} kind={question.kind ?? "image"} />
        <FeaturesLine once />
      </div>
      <aside class="side" aria-label="Answer">
        {offered.value.length > 0 ? (
          <ClassButtons
            onChoose={(index) => click(() => label(index))()}
            chosen={chosen}
            guess={guess}
            confidence={question.confidence}
            off={idle}
          />
        ) : (
          <div class="no-classes" data-testid="no-classes">
            {may("owner") ? (
              <>
                <p>No class yet. Look at the item, then name the class that fits.</p>
                <button type="button" class="main" disabled={idle} onClick={() => (dialog.value = "find")}>
                  Name the first class <kbd>{shownKey(keyOf("find", keyMap.value))}</kbd>
                </button>
              </>
            ) : (
              <p>No class yet. An owner of this project adds the first one.</p>
            )}
          </div>
        )}
        <div class="side-foot">
          <button type="button" class="quiet" data-testid="find" onClick={() => (dialog.value = "find")}>
            Find <kbd>{shownKey(keyOf("find", keyMap.value))}</kbd>
          </button>
          {may("owner") && (
            <button type="button" class="quiet" data-testid="add-class" onClick={() => (dialog.value = "add")}>
              + Add class
            </button>
          )}
          {mayGuess && (
            <button
              type="button"
              class="quiet"
              role="switch"
              aria-checked={showGuess}
              data-testid="suggest"
              title="The model’s guess can sway an answer, so it is hidden until you ask for it"
              onClick={click(() => (suggestions.value = !showGuess))}
            >
              <span class={showGuess ? "switch on" : "switch"} aria-hidden="true" /> Suggestions{" "}
              <kbd>{shownKey(keyOf("suggest", keyMap.value))}</kbd>
            </button>
          )}
        </div>
        {showGuess && (
          <p class="guess-line" data-testid="suggestion" aria-live="off">
            {guess === null ? (
              "No suggestion for this one."
            ) : (
              <>
                <span>
                  {question.confidence !== null && question.confidence < 0.5 ? "Perhaps" : "Likely"} <b>{className(guess)}</b>
                  {question.confidence !== null && ` (${likelihood(question.confidence, status.value?.calibration?.rough)})`}
                </span>
                <button type="button" class="quiet" data-testid="accept" onClick={click(accept)}>
                  Accept <kbd>{shownKey(keyOf("accept", keyMap.value))}</kbd>
                </button>
              </>
            )}
          </p>
        )}
        {showGuess && guess !== null && <CalibrationLine />}
        {question.work && <OwnProgress work={question.work} />}
      </aside>
      {dialog.value === "note" && <FlagNote note={question.note} onFlag={flagWithNote} />}
      {(dialog.value === "find" || dialog.value === "add") && <FindClass mode={dialog.value} onChoose={label} item={question.item} />}
    </div>
  );
}
