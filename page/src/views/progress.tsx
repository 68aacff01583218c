// How good the model is, whether to go on, and who did what.
import { useEffect, useState } from "preact/hooks";
import { Failure, get, post } from "../api.ts";
import { Curve } from "../charts.tsx";
import { decideElsewhere } from "../desk.ts";
import { annotator, away, classes, counted, dialog, may, say, status, styles } from "../state.ts";
import { trainingWords } from "../training.ts";
import { number, percent, sentence } from "../words.ts";
import type { ClassScore, Confusion, Progress } from "../types.ts";
import { AgreementPanels } from "./agreement.tsx";
import { AuditOffer, CalibrationLine, FeaturesLine, ItemsLine, LookForItems } from "./notes.tsx";
import { AssignWindow, People } from "./team.tsx";

const HEADINGS: Record<string, string> = {
  start: "Just begun",
  "go on": "Go on",
  slowing: "Slowing down",
  enough: "Probably enough",
  weak: "Not better than guessing",
  untrained: "The learner does not train",
};

const SCROLLED_BARS = 12; // more classes than this are pushed along, so the list must take the focus

function PutBack({ what, name }: { what: "skipped" | "dont_know"; name: string }) {
  const putBack = () => decideElsewhere("api/put-back", { what }, { item: null, id: null }, `${name} items put back`);
  return (
    <button type="button" data-testid={`put-back-${name}`} onClick={putBack}>
      {may("reviewer") ? "Put back" : "Put back mine"}
    </button>
  );
}

const MATRIX_CLASSES = 12; // more than this, and only the largest confusions are listed
const LISTED = 12;

const nameOf = (label: number) => classes.value[label] ?? `class ${label}`;

/** How often the model is right on the audit items of each class, with the interval drawn beside the number. */
function ScoreTable({ scores }: { scores: ClassScore[] }) {
  return (
    <div class="scroll-x tall" tabIndex={0} role="region" aria-label="Accuracy by class">
      <table class="intervals" data-testid="by-class">
        <thead>
          <tr>
            <th scope="col">Class</th>
            <th scope="col">Right</th>
            <th scope="col">Accuracy</th>
            <th scope="col">95% interval</th>
          </tr>
        </thead>
        <tbody>
          {scores.map((score) => (
            <tr key={score.label}>
              <th scope="row" title={nameOf(score.label)}>
                {nameOf(score.label)}
              </th>
              <td>
                {score.right} of {score.audited}
              </td>
              <td>{score.accuracy === null ? "–" : percent(score.accuracy)}</td>
              <td class="range">
                {score.low === null || score.high === null ? (
                  "no audit item yet"
                ) : (
                  <>
                    <span class="whole" aria-hidden="true">
                      <span style={{ left: percent(score.low), width: percent(score.high - score.low) }} />
                    </span>
                    <span>
                      {percent(score.low)} to {percent(score.high)}
                    </span>
                  </>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A row for each label, a column for each prediction. */
function Matrix({ scores, confusions }: { scores: ClassScore[]; confusions: Confusion[] }) {
  const count = (label: number, predicted: number) =>
    confusions.find((cell) => cell.label === label && cell.predicted === predicted)?.count ?? 0;
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Confusion matrix">
      <table class="matrix" data-testid="confusions">
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">Label, and what it is taken for</span>
            </th>
            {scores.map(({ label }) => (
              <th scope="col" key={label} title={nameOf(label)}>
                {nameOf(label)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {scores.map(({ label, audited }) => (
            <tr key={label}>
              <th scope="row" title={nameOf(label)}>
                {nameOf(label)}
              </th>
              {scores.map(({ label: predicted }) => {
                const n = count(label, predicted);
                const tone = n === 0 ? "none" : label === predicted ? "right" : "wrong";
                const strength = n === 0 ? 0 : Math.ceil((4 * n) / Math.max(1, audited));
                return (
                  <td key={predicted} class={`${tone} strength-${strength}`}>
                    {n === 0 ? "·" : n}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function LargestConfusions({ confusions }: { confusions: Confusion[] }) {
  const wrong = confusions.filter(({ label, predicted }) => label !== predicted);
  const largest = [...wrong].sort((a, b) => b.count - a.count);
  if (largest.length === 0) return <p class="faint">No audit item is taken for another class.</p>;
  return (
    <ul class="plain" data-testid="confusions">
      {largest.slice(0, LISTED).map(({ label, predicted, count }) => (
        <li key={`${label} ${predicted}`}>
          <b>{nameOf(label)}</b> taken for <b>{nameOf(predicted)}</b>: {count}×
        </li>
      ))}
      {largest.length > LISTED && <li class="faint">and {largest.length - LISTED} other pairs</li>}
    </ul>
  );
}

function ByClass({ scores, confusions }: { scores: ClassScore[]; confusions: Confusion[] }) {
  const few = scores.length <= MATRIX_CLASSES;
  return (
    <>
      <section class="panel half">
        <h2>Accuracy by class</h2>
        <ScoreTable scores={scores} />
      </section>
      <section class="panel half">
        <h2>{few ? "What is taken for what" : "Largest confusions"}</h2>
        {few ? <Matrix scores={scores} confusions={confusions} /> : <LargestConfusions confusions={confusions} />}
        <p class="faint small">
          {few ? "Audit items: a row for each label, a column for what the last model says." : "The last model, on the audit items."}
        </p>
      </section>
    </>
  );
}

export function ProgressView() {
  const [progress, setProgress] = useState<Progress | null>(null);
  const [trouble, setTrouble] = useState("");
  const now = status.value;
  const version = now?.version;
  useEffect(() => {
    let wanted = true;
    const timer = setTimeout(
      () => {
        get<Progress>("api/progress").then(
          (fresh) => {
            if (wanted) {
              setProgress(fresh);
              setTrouble("");
            }
          },
          (error: unknown) => wanted && setTrouble(error instanceof Failure ? error.message : String(error)),
        );
      },
      progress === null ? 0 : 400,
    );
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [version]);
  const train = async () => {
    try {
      await post("api/train", { annotator: annotator.value });
      say("Training requested.");
    } catch (error) {
      say(error instanceof Failure ? error.message : String(error), "bad");
    }
  };
  if (!now) return null;
  if (!progress)
    return (
      <p class="centre faint" role="status">
        {trouble || "Counting…"}
      </p>
    );
  const most = Math.max(1, ...now.class_counts);
  return (
    <div class="view progress">
      <section class={`hint ${progress.hint.advice.replace(" ", "-")}`} data-testid="hint">
        <h1>{HEADINGS[progress.hint.advice] ?? progress.hint.advice}</h1>
        <p>{progress.hint.line}</p>
      </section>
      <div class="notes wide">
        <FeaturesLine />
        <AuditOffer />
        <ItemsLine notes={progress.data_notes} />
      </div>
      <div class="figures">
        <div>
          <b>{number(now.labelled)}</b>
          <span>of {number(now.total)} labelled</span>
          <span>
            <LookForItems />
          </span>
        </div>
        <div>
          <b>{now.accuracy === null ? "–" : percent(now.accuracy, 1)}</b>
          <span>
            {now.interval
              ? `right; 95% sure: ${percent(now.interval[0])} to ${percent(now.interval[1])}`
              : "accuracy, not measured yet"}
          </span>
          {now.audit_missing > 0 && (
            <span data-testid="audit-missing" title="Skipped, or nobody could tell: they do not count in the accuracy">
              {number(now.audit_missing)} {now.audit_missing === 1 ? "audit item" : "audit items"}{" "}
              {now.audit_missing === 1 ? "has no answer" : "have no answer"}
            </span>
          )}
        </div>
        <div>
          <b>{number(now.audited)}</b>
          <span title="A random sample that is never trained on: the model is scored on it">audit items answered</span>
        </div>
        <div class="figure-train">
          <b class="words">{trainingWords(now)}</b>
          {now.training.state === "failed" && now.training.reason && (
            <span data-testid="training-reason">{sentence(now.training.reason)}</span>
          )}
          {may("owner") && (
            <span>
              <button
                type="button"
                data-testid="train-now"
                disabled={now.training.state === "running" || away.value}
                onClick={() => void train()}
              >
                Train now
              </button>
            </span>
          )}
        </div>
      </div>
      <section class="panel wide">
        <h2>Accuracy</h2>
        {progress.curve.some((point) => point.accuracy !== null) ? (
          <>
            <Curve curve={progress.curve} />
            <p class="legend">
              <span>
                <span class="key line" /> on audit items
              </span>
              <span>
                <span class="key band" /> 95% interval
              </span>
              {progress.curve.filter((point) => point.accuracy !== null && point.asked_accuracy !== null).length > 1 && (
                <span>
                  <span class="key asked" /> on the items that were asked (harder on purpose)
                </span>
              )}
            </p>
          </>
        ) : (
          <p class="faint">The curve starts with the first training that has audit items to be scored on.</p>
        )}
        <CalibrationLine />
      </section>
      {progress.by_class.length > 0 && <ByClass scores={progress.by_class} confusions={progress.confusions} />}
      <section class="panel half">
        <h2>Classes</h2>
        <ul class="bars" tabIndex={counted.value.length > SCROLLED_BARS ? 0 : undefined} aria-label="Labels by class">
          {counted.value.map(({ number: i, name, count }) => (
            <li key={i}>
              <span class="bar-name" title={name}>
                {name}
              </span>
              <span class="bar">
                <span style={{ width: `${(100 * count) / most}%`, background: styles.value.get(i)?.colour ?? undefined }} />
              </span>
              <span class="bar-count">{number(count)}</span>
            </li>
          ))}
        </ul>
      </section>
      <section class="panel half">
        <h2>Set aside</h2>
        <ul class="aside">
          <li>
            <b>{number(now.skipped)}</b> skipped{" "}
            {now.skipped > 0 && <PutBack what="skipped" name="skipped" />}
          </li>
          <li>
            <b>{number(now.unknown)}</b> nobody could tell{" "}
            {now.unknown > 0 && <PutBack what="dont_know" name="unknown" />}
          </li>
          <li>
            <b>{number(now.bad)}</b> bad, out of the pool{" "}
            {now.bad > 0 && may("reviewer") && <a href="#/browse?state=bad">Look</a>}
          </li>
          <li>
            <b>{number(now.flagged)}</b> flagged{" "}
            {now.flagged > 0 && may("reviewer") && <a href="#/browse?state=flagged">Look</a>}
          </li>
          <li>
            <b>{number(now.suspicious)}</b> to review {now.suspicious > 0 && may("reviewer") && <a href="#/review">Review</a>}
          </li>
          <li data-testid="disputed-count">
            <b>{number(now.disputed)}</b> disputed {now.disputed > 0 && may("reviewer") && <a href="#/review/disputes">Settle</a>}
          </li>
        </ul>
      </section>
      <section class="panel wide">
        <div class="panel-head">
          <h2>{may("reviewer") ? "People" : "You"}</h2>
          {may("owner") && (
            <button type="button" data-testid="open-people" onClick={() => (dialog.value = "people")}>
              Change people
            </button>
          )}
        </div>
        {progress.people.length > 0 ? (
          <People people={progress.people} mayAssign={may("owner")} />
        ) : (
          <p class="faint">Nobody has labelled yet.</p>
        )}
        {progress.notes.map((note) => (
          <p key={note} class="faint small" data-testid="assignment-note">
            {note}
          </p>
        ))}
      </section>
      {progress.agreement && progress.agreement.items > 0 && (
        <AgreementPanels agreement={progress.agreement} disputed={now.disputed} />
      )}
      {progress.failures.length > 0 && (
        <section class="panel bad" data-testid="failures">
          <h2>Trainings that failed</h2>
          <p>Labelling goes on with the previous model. Nothing is lost.</p>
          <ul class="plain">
            {progress.failures
              .slice(-5)
              .reverse()
              .map((line, i) => (
                <li key={i}>{line}</li>
              ))}
          </ul>
        </section>
      )}
      {dialog.value === "assign" && <AssignWindow />}
    </div>
  );
}
