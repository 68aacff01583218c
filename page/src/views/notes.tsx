// Notes that several views share: what the features are, how far a confidence can be believed, what folders are.
import { useState } from "preact/hooks";
import { decideFolders, lookForItems, raiseAuditShare } from "../project.ts";
import { dismissed } from "../settings.ts";
import { may, say, status } from "../state.ts";
import type { Folders } from "../types.ts";
import { number, percent, plural, sentence } from "../words.ts";

export function Command({ line }: { line: string }) {
  const copy = () =>
    navigator.clipboard?.writeText(line).then(
      () => say("Copied."),
      () => say("Select the line and copy it."),
    );
  return (
    <span class="command">
      <code tabIndex={0}>{line}</code>
      {navigator.clipboard && (
        <button type="button" onClick={() => void copy()}>
          Copy
        </button>
      )}
    </span>
  );
}

/** What the features are, and to owners, who can change that, how. On the label view only until they have read it. */
export function FeaturesLine({ once = false }: { once?: boolean }) {
  const note = status.value?.features;
  if (!note) return null;
  if (once) {
    const name = `${status.value?.project} ${note.encoder}`;
    if (!note.is_weak || !may("owner") || dismissed.value.includes(name)) return null;
    return (
      <div class="note short-note" role="note" data-testid="features-note">
        <p>
          <b>Features: {note.what}.</b> {note.advice && "Better ones need far fewer labels."}
        </p>
        <span class="row">
          {note.advice && (
            <a class="button" href="#/progress" data-testid="features-how">
              How
            </a>
          )}
          <button
            type="button"
            data-testid="features-dismiss"
            onClick={() => (dismissed.value = [...dismissed.value, name].slice(-50))}
          >
            Got it
          </button>
        </span>
      </div>
    );
  }
  return (
    <div class={note.is_weak && may("owner") ? "note" : "note plain-note"} role="note" data-testid="features">
      <p>
        <b>Features: {note.what}</b>
        {note.is_weak && note.advice && may("owner") && `: ${note.advice}`}.
      </p>
      {note.is_weak && note.command && may("owner") && <Command line={note.command} />}
    </div>
  );
}

/** How far confidences can be believed. */
export function CalibrationLine() {
  const found = status.value?.calibration;
  return found ? (
    <p class="faint small" data-testid="calibration">
      {found.sentence}
    </p>
  ) : null;
}

/** What the audit items can show, and the offer to have more of them where "enough" could not come otherwise. */
export function AuditOffer() {
  const [busy, setBusy] = useState(false);
  const plan = status.value?.audit;
  if (!plan || plan.raise_to === null || !may("owner")) return null;
  const raise = async () => {
    setBusy(true);
    await raiseAuditShare(plan.raise_to as number);
    setBusy(false);
  };
  return (
    <div class="note plain-note" role="note" data-testid="audit-offer">
      <p>{plan.line}</p>
      <button type="button" data-testid="raise-audit-share" disabled={busy} onClick={() => void raise()}>
        Raise the audit share from {percent(plan.share)} to {percent(plan.raise_to)}
      </button>
    </div>
  );
}

/** For owners: have the data looked at now. What is new there joins by itself. */
export function LookForItems() {
  const [busy, setBusy] = useState(false);
  if (!may("owner")) return null;
  const look = async () => {
    setBusy(true);
    await lookForItems();
    setBusy(false);
  };
  return (
    <button type="button" data-testid="look-for-items" disabled={busy} onClick={() => void look()}>
      Look for new items
    </button>
  );
}

/** New items on their way, and what is amiss in the data. */
export function ItemsLine({ notes }: { notes: string[] }) {
  const joining = status.value?.joining;
  if (!joining && notes.length === 0) return null;
  return (
    <div class="note plain-note" role="note" data-testid="items-line">
      <div>
        {joining && (
          <p data-testid="joining">
            {plural(joining.total, "new item is", "new items are")} on the way; {number(joining.done)} encoded.
          </p>
        )}
        {notes.map((line) => (
          <p key={line}>{sentence(line)}</p>
        ))}
      </div>
    </div>
  );
}

const named = ({ names, count }: Folders) =>
  names.slice(0, 8).join(", ") + (count > names.length ? ` and ${number(count - names.length)} more` : "");

function FolderButtons({ folders }: { folders: Folders }) {
  const [busy, setBusy] = useState(false);
  const decide = async (labels: boolean) => {
    setBusy(true);
    await decideFolders(labels);
    setBusy(false);
  };
  const likelier = folders.looks === null;
  const options = [
    { labels: true, words: "Classes: label each item by its folder", testid: "folders-classes" },
    { labels: false, words: "Just folders: label nothing yet", testid: "folders-only" },
  ].sort((a) => (a.labels === likelier ? -1 : 1));
  return (
    <div class="folder-buttons">
      {options
        .filter(({ labels }) => folders.taken_for !== (labels ? "classes" : "folders"))
        .map(({ labels, words, testid }, i) => (
          <button
            type="button"
            key={testid}
            class={i === 0 && folders.taken_for === "undecided" ? "main" : ""}
            data-testid={testid}
            disabled={busy}
            onClick={() => void decide(labels)}
          >
            {words}
          </button>
        ))}
    </div>
  );
}

/** Before anything is labelled: are the folders classes? */
export function FolderQuestion() {
  const folders = status.value?.folders;
  if (!folders || folders.taken_for !== "undecided") return null;
  return (
    <div class="card" data-testid="folder-question">
      <h1>{plural(folders.count, "folder")}: classes, or just folders?</h1>
      <p>{named(folders)}</p>
      <p>
        {folders.looks && `${sentence(folders.looks)} `}
        {plural(folders.items, "item lies", "items lie")} in them
        {folders.loose > 0 && `, and ${number(folders.loose)} beside them`}. You can change this until somebody labels.
      </p>
      {may("owner") ? <FolderButtons folders={folders} /> : <p>An owner of this project decides; labelling starts then.</p>}
    </div>
  );
}

/** Once it is decided: what the folders are taken for, and the way back. */
export function FolderLine() {
  const folders = status.value?.folders;
  if (!folders || folders.taken_for === "undecided") return null;
  return (
    <div class="setting wrap" data-testid="folder-line">
      <span>
        {plural(folders.count, "folder is", "folders are")} taken for {folders.taken_for === "classes" ? "classes" : "folders"}
        <small>{named(folders)}</small>
      </span>
      <FolderButtons folders={folders} />
    </div>
  );
}
