// The people of the project: who may do what, their personal links, and everything that owners can do about them.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, get, post, randomKey } from "../api.ts";
import { Dialog } from "../dialogs.tsx";
import { annotator, status } from "../state.ts";
import type { PersonShown, Role, Team } from "../types.ts";
import { ROLE_WORDS, plural, sentence } from "../words.ts";
import { Command } from "./notes.tsx";
import { type Outcome, OutcomeList } from "./outcome.tsx";

type Change = (path: string, body: Record<string, unknown>, done: string) => Promise<boolean>;

const ROLES: readonly Role[] = ["annotator", "reviewer", "owner"];
const wordsOf = (error: unknown) => sentence(error instanceof Failure ? error.message : String(error));

export function PeopleWindow() {
  const [team, setTeam] = useState<Team | null>(null);
  const [open, setOpen] = useState<string | null>(null);
  const [issued, setIssued] = useState<Team["issued"]>(null);
  const [result, setResult] = useState<Outcome | null>(null);
  const version = status.value?.version; // somebody came, labelled, or was changed by another owner
  useEffect(
    () => void get<Team>("api/people").then(setTeam, (error) => setResult({ good: false, lines: [wordsOf(error)] })),
    [version],
  );
  const change: Change = async (path, body, done) => {
    try {
      const fresh = await post<Team>(path, { ...body, annotator: annotator.value, key: randomKey() }, 60_000);
      setTeam(fresh);
      if (fresh.issued) setIssued(fresh.issued);
      setResult({ good: true, lines: [done] });
      return true;
    } catch (error) {
      setResult({ good: false, lines: [wordsOf(error)] });
      return false;
    }
  };
  return (
    <Dialog title="People" testid="people-dialog">
      <p class="faint">Changes here are for everybody at once, and can be taken back below.</p>
      {team?.entry === "open" && (
        <div class="note plain-note" data-testid="people-open">
          <p>
            This server is open: whoever reaches it is owner, under any name. To give people links of their own, stop it
            and start it with their names; the roles below count from then on:
          </p>
          <Command line="understudy label PROJECT --annotators ann,bob:reviewer" />
        </div>
      )}
      <OutcomeList outcome={result} testid="people-result" />
      {issued && <LinkShown issued={issued} onDone={() => setIssued(null)} />}
      <ul class="class-list people-list" aria-label="People">
        {team?.people.map((each) => (
          <li key={each.person} data-testid={`person-${each.person}`}>
            <div class={each.retired ? "class-line gone" : "class-line"}>
              <span class={each.online ? "dot on" : "dot"} title={each.online ? "online" : "away"} />
              <span class="class-words">
                <b>{each.name}</b>
                {each.name === annotator.value && <span class="faint"> you</span>}
                <small>
                  <span data-testid="person-role">{each.retired ? `retired ${each.role}` : each.role}</span>
                  {` · ${plural(each.labels, "label")}`}
                  {each.former_names.length > 0 && ` · formerly ${each.former_names.join(", ")}`}
                </small>
              </span>
              <span class="class-buttons">
                <button
                  type="button"
                  aria-expanded={open === each.person}
                  data-testid={`open-person-${each.person}`}
                  onClick={() => setOpen(open === each.person ? null : each.person)}
                >
                  {open === each.person ? "Close" : "Change"}
                  <span class="unseen"> {each.name}</span>
                </button>
              </span>
            </div>
            {open === each.person && team && (
              <PersonForm key={each.name} shown={each} team={team} onChange={change} />
            )}
          </li>
        ))}
      </ul>
      <NewPerson onChange={change} />
      {team && team.changes.length > 0 && (
        <details open data-testid="people-changes">
          <summary>Last changes</summary>
          <ul class="plain changes">
            {team.changes.map(({ seq, by, line, kept }) => (
              <li key={seq}>
                <span>
                  {line} {by !== null && <span class="faint">{by}</span>}
                </span>
                <button
                  type="button"
                  disabled={kept !== null}
                  title={kept === null ? "" : sentence(kept)}
                  data-testid={`undo-people-${seq}`}
                  onClick={() => void change("api/people/undo", { change: seq }, `Taken back: ${line}`)}
                >
                  Undo<span class="unseen"> {line}</span>
                </button>
              </li>
            ))}
          </ul>
        </details>
      )}
    </Dialog>
  );
}

/** A link that was just made. It is shown this once: the project keeps only its hash. */
function LinkShown({ issued, onDone }: { issued: NonNullable<Team["issued"]>; onDone: () => void }) {
  const [copied, setCopied] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const link = `${location.origin}${location.pathname}?token=${issued.token}`;
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  useEffect(() => setCopied(false), [issued.token]);
  const copy = async () => {
    field.current?.select();
    try {
      await navigator.clipboard.writeText(link);
      setCopied(true);
    } catch {
      setCopied(document.execCommand("copy")); // where there is no HTTPS, browsers have this only
    }
  };
  return (
    <div class="note plain-note link-shown" role="group" aria-label={`Link of ${issued.name}`} data-testid="issued">
      <p>
        <b>The personal link of {issued.name}.</b> Send it to them now: it is shown only this once.
      </p>
      <div class="row">
        <input
          ref={field}
          class="field"
          type="text"
          readOnly
          aria-label={`Personal link of ${issued.name}`}
          data-testid="issued-link"
          value={link}
          onFocus={(event) => event.currentTarget.select()}
        />
        <button type="button" class="main" data-testid="copy-link" onClick={() => void copy()}>
          {copied ? "Copied" : "Copy"}
        </button>
        <button type="button" class="quiet" onClick={onDone}>
          Done
        </button>
      </div>
      {isLocal && (
        <p class="faint small">
          It begins with {location.host}, which only this machine understands. Elsewhere, put the name or address of
          this machine there.
        </p>
      )}
    </div>
  );
}

function RoleChoice({ chosen, onChoose, testid }: { chosen: Role; onChoose: (role: Role) => void; testid: string }) {
  return (
    <select
      aria-label="Role"
      data-testid={testid}
      value={chosen}
      onChange={(event) => onChoose(event.currentTarget.value as Role)}
    >
      {ROLES.map((role) => (
        <option key={role} value={role}>
          {role}
        </option>
      ))}
    </select>
  );
}

function NewPerson({ onChange }: { onChange: Change }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("annotator");
  const add = async () => {
    const wanted = name.trim();
    if (!wanted || !(await onChange("api/people/add", { name: wanted, role }, `“${wanted}” was added.`))) return;
    setName("");
    setRole("annotator");
  };
  return (
    <form
      class="new-person"
      onSubmit={(event) => {
        event.preventDefault();
        void add();
      }}
    >
      <input
        class="field"
        type="text"
        aria-label="Name of a new person"
        placeholder="Somebody new"
        maxLength={64}
        autocomplete="off"
        data-testid="new-person"
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <RoleChoice chosen={role} onChoose={setRole} testid="new-role" />
      <button type="submit" data-testid="add-person" disabled={name.trim() === ""}>
        Add
      </button>
      <small class="faint">{sentence(ROLE_WORDS[role])}</small>
    </form>
  );
}

/** Everything that can be done about one person. */
function PersonForm({ shown, team, onChange }: { shown: PersonShown; team: Team; onChange: Change }) {
  const { person, name, role, retired, added } = shown;
  const [wanted, setWanted] = useState(name);
  const set = (values: Record<string, unknown>, done: string) =>
    onChange("api/people/change", { person: name, ...values }, done);
  const hasLink = team.linked.includes(person);
  const byPassword = team.entry === "password" && role === "annotator" && !hasLink;
  return (
    <div class="class-form" data-testid={`person-form-${person}`}>
      <form
        class="setting"
        onSubmit={(event) => {
          event.preventDefault();
          void set({ name: wanted.trim() }, `“${name}” is “${wanted.trim()}” now.`);
        }}
      >
        <label>
          Name{" "}
          <input
            class="field"
            type="text"
            maxLength={64}
            data-testid="person-name"
            value={wanted}
            onInput={(event) => setWanted(event.currentTarget.value)}
          />
        </label>
        <button type="submit" data-testid="rename-person" disabled={wanted.trim() === name || wanted.trim() === ""}>
          Rename
        </button>
      </form>
      {!retired && (
        <div class="setting">
          <label>
            Role{" "}
            <RoleChoice
              chosen={role}
              testid="change-role"
              onChoose={(fresh) => void set({ role: fresh }, `“${name}” is ${fresh} now.`)}
            />
          </label>
          <small class="faint">{sentence(ROLE_WORDS[role])}</small>
        </div>
      )}
      {!retired && team.entry !== "open" && (
        <div class="setting">
          <span>
            Personal link{" "}
            <small>
              {byPassword
                ? "They come in by the password"
                : !added
                  ? "They are known by their labels only"
                  : hasLink
                    ? "The one they have stops working at once"
                    : "They have none yet"}
            </small>
          </span>
          {byPassword ? null : added ? (
            <button
              type="button"
              data-testid="new-link"
              onClick={() => void onChange("api/people/link", { person: name }, `“${name}” has a new link.`)}
            >
              New link
            </button>
          ) : (
            <button
              type="button"
              data-testid="let-in"
              onClick={() => void onChange("api/people/add", { name, role }, `“${name}” was let in.`)}
            >
              Let in
            </button>
          )}
        </div>
      )}
      <div class="setting">
        <span>
          {retired ? "Bring them back" : "Let them retire"}{" "}
          <small>
            {retired ? "Their link works again" : "They are out at once; what they hold goes back, and their labels stay"}
          </small>
        </span>
        <button
          type="button"
          data-testid="retire"
          onClick={() => void set({ retired: !retired }, retired ? `“${name}” is back.` : `“${name}” has retired.`)}
        >
          {retired ? "Bring back" : "Retire"}
        </button>
      </div>
    </div>
  );
}
