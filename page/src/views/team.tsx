// People on the progress page: what each did, how fast, how alike, and what each was assigned.
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { Failure } from "../api.ts";
import { Dialog } from "../dialogs.tsx";
import { assign } from "../project.ts";
import { className, dialog, offered, say } from "../state.ts";
import type { OwnWork, Person } from "../types.ts";
import { number, percent, plural, seconds, sentence } from "../words.ts";

const edited = signal<Person | null>(null); // whose assignment is in the window

const orDash = (value: number | null, words: (value: number) => string) => (value === null ? "–" : words(value));
const anHour = (pace: number) => `${number(Math.round(pace))}/h`;
const minutes = (value: number) =>
  value < 3600 ? `${Math.round(value / 60)} min` : `${number(Math.round(value / 360) / 10)} h`;

function Bar({ done, of }: { done: number; of: number }) {
  return (
    <span class="bar" aria-hidden="true">
      <span style={{ width: percent(of > 0 ? Math.min(1, done / of) : 0) }} />
    </span>
  );
}

/** Share, classes and quota of a person with how far they are, a line each. */
function Assigned({ person, others }: { person: Person; others: boolean }) {
  const { share, classes, quota, labels, part, part_done: done } = person;
  const whose = [
    ...(share === null ? [] : [`${percent(share, share > 0 && share < 0.01 ? 1 : 0)} of the pool`]),
    ...(classes.length === 0
      ? []
      : [`${classes.length === 1 ? "class" : "classes"} ${classes.map(className).join(", ")}`]),
  ];
  if (whose.length === 0 && quota === null) return <span class="faint">{others ? "what is nobody else’s" : "everything"}</span>;
  return (
    <>
      {whose.length > 0 && (
        <span class="goal">
          <span>{whose.join("; ")}</span>
          {part > 0 && (
            <>
              <Bar done={done} of={part} />
              <small>
                {number(done)} of {plural(part, "item")} done
              </small>
            </>
          )}
        </span>
      )}
      {quota !== null && (
        <span class="goal">
          <span>{plural(quota, "label")}</span>
          <Bar done={labels} of={quota} />
          <small>{labels >= quota ? "quota reached" : `${number(quota - labels)} to go`}</small>
        </span>
      )}
    </>
  );
}

function Row({ person, most, others, mayAssign }: { person: Person; most: number; others: boolean; mayAssign: boolean }) {
  const open = () => {
    edited.value = person;
    dialog.value = "assign";
  };
  return (
    <tr data-person={person.name}>
      <th scope="row" title={person.name}>
        <span class={person.online ? "dot on" : "dot"} title={person.online ? "online" : "away"} /> {person.name}
        {person.retired && <small class="faint"> retired</small>}
      </th>
      <td data-label="Labels">
        <span class="goal">
          <span>{number(person.labels)}</span>
          <Bar done={person.labels} of={most} />
          {person.labels_today > 0 && <small>{number(person.labels_today)} today</small>}
        </span>
      </td>
      <td data-label="Assigned" class="assigned">
        <Assigned person={person} others={others} />
      </td>
      <td data-label="Pace">
        {orDash(person.labels === 0 ? null : person.pace, anHour)}
        {person.labels > 0 && person.pace_today !== null && <small>{anHour(person.pace_today)} today</small>}
        {person.labels > 0 && person.active_seconds >= 60 && <small>in {minutes(person.active_seconds)}</small>}
      </td>
      <td data-label="Time each">{orDash(person.median_seconds, seconds)}</td>
      <td data-label="Skipped">
        {number(person.skipped)}
        {person.skipped > 0 && person.skipped_share !== null && <small>{percent(person.skipped_share)}</small>}
      </td>
      <td data-label="Don’t know">
        {number(person.unknown)}
        {person.unknown > 0 && person.unknown_share !== null && <small>{percent(person.unknown_share)}</small>}
      </td>
      <td data-label="Agrees">
        {orDash(person.agreement, percent)}
        {person.kappa !== null && <small title="Cohen’s kappa: 1: perfect; 0: no better than chance">κ {person.kappa.toFixed(2)}</small>}
      </td>
      <td data-label="Reviewed">
        {orDash(person.review_agreement, percent)}
        {person.reviewed > 0 && <small>of {number(person.reviewed)}</small>}
      </td>
      {mayAssign && (
        <td class="edit">
          {!person.retired && person.name !== "source" && (
            <button type="button" data-testid={`assign-${person.name}`} onClick={open}>
              Assign<span class="unseen"> {person.name}</span>
            </button>
          )}
        </td>
      )}
    </tr>
  );
}

export function People({ people, mayAssign }: { people: Person[]; mayAssign: boolean }) {
  const most = Math.max(1, ...people.map((person) => person.labels));
  const isDivided = people.some(({ share, classes }) => share !== null || classes.length > 0);
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="People">
      <table data-testid="people" class="team">
        <thead>
          <tr>
            <th scope="col">Who</th>
            <th scope="col">Labels</th>
            <th scope="col" title="Share of the pool, classes and labels they are asked for">
              Assigned
            </th>
            <th scope="col" title="Labels an hour while at it: pauses of more than five minutes left out">
              Pace
            </th>
            <th scope="col" title="Median time an answer took">
              Time each
            </th>
            <th scope="col">Skipped</th>
            <th scope="col">Don’t know</th>
            <th scope="col" title="With others, on the items that both saw">
              Agrees
            </th>
            <th scope="col" title="Labels that somebody else reviewed and left as they were">
              Reviewed
            </th>
            {mayAssign && (
              <th scope="col">
                <span class="unseen">Change</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {people.map((person) => (
            <Row key={person.name} person={person} most={most} others={isDivided} mayAssign={mayAssign} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

const inNumbers = (text: string) => (text.trim() === "" ? null : Number(text));

/** What one person is asked for. Opened from the table; it holds from the next item on. */
export function AssignWindow() {
  const person = edited.value;
  const [share, setShare] = useState(person?.share == null ? "" : String(Math.round(person.share * 10_000) / 100));
  const [quota, setQuota] = useState(person?.quota == null ? "" : String(person.quota));
  const [chosen, setChosen] = useState<number[]>(person?.classes ?? []);
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  if (!person) return null;
  const save = async () => {
    setBusy(true);
    const part = inNumbers(share);
    try {
      await assign(person.name, { share: part === null ? null : part / 100, classes: chosen, quota: inNumbers(quota) });
      say(`Saved what ${person.name} is asked for.`);
      dialog.value = null;
    } catch (error) {
      setTrouble(sentence(error instanceof Failure ? error.message : String(error)));
    }
    setBusy(false);
  };
  return (
    <Dialog title={`Assign ${person.name}`} testid="assign-dialog">
      <form
        class="project-form"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <div class="setting">
          <label for="assign-share">
            Share of the pool, in per cent
            <small id="about-share">Nobody else is asked for these items. Empty: no part of their own.</small>
          </label>
          <input
            id="assign-share"
            data-testid="assign-share"
            aria-describedby="about-share"
            class="field short-field"
            type="number"
            min={0}
            max={100}
            step="any"
            value={share}
            onInput={(event) => setShare(event.currentTarget.value)}
          />
        </div>
        <div class="setting">
          <label for="assign-quota">
            Labels in all
            <small id="about-quota">When they are given, no more are asked for. Empty: no limit.</small>
          </label>
          <input
            id="assign-quota"
            data-testid="assign-quota"
            aria-describedby="about-quota"
            class="field short-field"
            type="number"
            min={1}
            step={1}
            value={quota}
            onInput={(event) => setQuota(event.currentTarget.value)}
          />
        </div>
        {offered.value.length > 0 && (
          <fieldset class="assign-classes">
            <legend>
              Classes
              <small>Items that the model takes for one of these are asked of them, and not of others. None: all.</small>
            </legend>
            {offered.value.map((label) => (
              <label key={label} class="check">
                <input
                  type="checkbox"
                  data-testid={`assign-class-${label}`}
                  checked={chosen.includes(label)}
                  onChange={(event) =>
                    setChosen(event.currentTarget.checked ? [...chosen, label] : chosen.filter((each) => each !== label))
                  }
                />{" "}
                {className(label)}
              </label>
            ))}
          </fieldset>
        )}
        <p class="faint small">
          Random audit items are asked of anybody, and second opinions of others, whatever is assigned. An item somebody has
          now stays with them.
        </p>
        {trouble && (
          <p class="bad-words" role="alert" data-testid="assign-trouble">
            {trouble}
          </p>
        )}
        <button type="submit" class="main" data-testid="assign-save" disabled={busy}>
          Save
        </button>
      </form>
    </Dialog>
  );
}

/** While labelling: how far one is with one's own labels and items. */
export function OwnProgress({ work }: { work: OwnWork }) {
  return (
    <div class="own-work" data-testid="own-work" role="group" aria-label="Your progress">
      {work.quota !== null && (
        <span class="goal">
          <span>
            <b>{number(work.labels)}</b> of {plural(work.quota, "label")}
          </span>
          <Bar done={work.labels} of={work.quota} />
        </span>
      )}
      {work.part > 0 && (
        <span class="goal">
          <span>
            <b>{number(work.done)}</b> of your {plural(work.part, "item")}
          </span>
          <Bar done={work.done} of={work.part} />
        </span>
      )}
    </div>
  );
}
