// What is listed, and in which order: words, states with their counts, class, person, confidence.
import { useEffect, useRef, useState } from "preact/hooks";
import { NOTHING, SORTS, STATES, STATE_WORDS, isFiltered } from "../browse.ts";
import type { Wanted } from "../browse.ts";
import { allowed, className, counted, offered, status } from "../state.ts";
import type { BrowsePage } from "../types.ts";
import { number, percent } from "../words.ts";
import { ListTabs } from "./list_tabs.tsx";

const WAIT = 250; // ms after the last letter
const TENTHS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];

interface Filters {
  wanted: Wanted;
  page: BrowsePage | null;
  onWant: (change: Partial<Wanted>, replaces?: boolean) => void;
  onName: (name: string) => void; // Enter: perhaps it is the name of an item
}

function Search({ wanted, onWant, onName }: Filters) {
  const [words, setWords] = useState(wanted.search);
  const timer = useRef(0);
  const sent = useRef(wanted.search);
  useEffect(() => {
    if (wanted.search !== sent.current) setWords(wanted.search); // changed by the address, not by these letters
    sent.current = wanted.search;
  }, [wanted.search]);
  const want = (text: string) => {
    clearTimeout(timer.current);
    if (text === sent.current) return;
    const replaces = sent.current !== "" && text !== "";
    sent.current = text;
    onWant({ search: text, page: 1, open: null }, replaces);
  };
  const kind = status.value?.kind === "text" ? "Search texts and names" : "Search file names";
  return (
    <input
      type="search"
      class="field search"
      data-testid="browse-search"
      aria-label={`${kind}; Enter opens the item of that very name`}
      placeholder={kind}
      maxLength={200}
      autocomplete="off"
      spellcheck={false}
      value={words}
      onInput={(event) => {
        const text = event.currentTarget.value;
        setWords(text);
        clearTimeout(timer.current);
        timer.current = window.setTimeout(() => want(text.trim()), WAIT);
      }}
      onKeyDown={(event) => {
        if (event.key !== "Enter") return;
        want(words.trim());
        if (words.trim()) onName(words.trim());
      }}
    />
  );
}

function Choice({
  testid,
  words,
  value,
  options,
  onChoose,
}: {
  testid: string;
  words: string;
  value: string;
  options: [value: string, words: string][];
  onChoose: (value: string) => void;
}) {
  return (
    <label class="choice">
      <span>{words}</span>
      <select data-testid={testid} value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        {options.map(([each, said]) => (
          <option key={each} value={each} selected={each === value}>
            {said}
          </option>
        ))}
      </select>
    </label>
  );
}

const one = (numbers: number[]) => (numbers.length === 1 ? String(numbers[0]) : "");
const asNumbers = (value: string) => (value === "" ? [] : [Number(value)]);

function Choices({ wanted, page, onWant }: Filters) {
  const want = (change: Partial<Wanted>) => onWant({ ...change, page: 1, open: null });
  const hasModel = status.value?.model != null && allowed.value.suggestions;
  const shares = (value: number): [string, string][] =>
    [...new Set([...TENTHS, value])].sort((a, b) => a - b).map((each) => [String(each), percent(each)]);
  const people = [...new Set([...(page?.people ?? []), ...(wanted.person ? [wanted.person] : [])])];
  const sorts = SORTS.filter(([name]) => hasModel || !["confidence-up", "confidence-down", "surprise"].includes(name));
  return (
    <>
      <Choice
        testid="browse-class"
        words="Class"
        value={one(wanted.label)}
        options={[["", "any"], ...counted.value.map((each): [string, string] => [String(each.number), each.name])]}
        onChoose={(value) => want({ label: asNumbers(value) })}
      />
      {hasModel && (
        <Choice
          testid="browse-suggested"
          words="Suggested"
          value={one(wanted.suggested)}
          options={[["", "any"], ...offered.value.map((each): [string, string] => [String(each), className(each)])]}
          onChoose={(value) => want({ suggested: asNumbers(value) })}
        />
      )}
      {people.length > 0 && (
        <Choice
          testid="browse-person"
          words="Person"
          value={wanted.person}
          options={[["", "anybody"], ...people.map((each): [string, string] => [each, each])]}
          onChoose={(value) => want({ person: value })}
        />
      )}
      {hasModel && (
        <span class="choice range">
          <span>Confidence</span>
          <select
            data-testid="browse-from"
            aria-label="Confidence from"
            value={String(wanted.from)}
            onChange={(event) => want({ from: Number(event.currentTarget.value), to: Math.max(wanted.to, Number(event.currentTarget.value)) })}
          >
            {shares(wanted.from).map(([value, words]) => (
              <option key={value} value={value} selected={Number(value) === wanted.from}>
                {words}
              </option>
            ))}
          </select>
          <span>to</span>
          <select
            data-testid="browse-to"
            aria-label="Confidence to"
            value={String(wanted.to)}
            onChange={(event) => want({ to: Number(event.currentTarget.value), from: Math.min(wanted.from, Number(event.currentTarget.value)) })}
          >
            {shares(wanted.to).map(([value, words]) => (
              <option key={value} value={value} selected={Number(value) === wanted.to}>
                {words}
              </option>
            ))}
          </select>
        </span>
      )}
      <Choice
        testid="browse-sort"
        words="Sort by"
        value={wanted.sort}
        options={[
          ["", wanted.similar === null ? "Order of the data" : "Nearest first"],
          ...sorts.filter(([name]) => wanted.similar !== null || name !== "pool"),
        ]}
        onChoose={(value) => want({ sort: value })}
      />
    </>
  );
}

export function BrowseFilters(filters: Filters) {
  const { wanted, page, onWant } = filters;
  const [unfolded, setUnfolded] = useState(false);
  const toggle = (state: string) => {
    const without = wanted.state.filter((each) => each !== state);
    onWant({ state: without.length < wanted.state.length ? without : [...without, state], page: 1, open: null });
  };
  const chosen = [
    wanted.label.length > 0,
    wanted.suggested.length > 0,
    wanted.person !== "",
    wanted.from > 0 || wanted.to < 1,
    wanted.sort !== "",
  ].filter(Boolean).length;
  return (
    <header class="browse-head">
      <h1 class="unseen">Browse</h1>
      <div class="browse-line">
        <ListTabs />
        <Search {...filters} />
        <button
          type="button"
          class="unfold"
          data-testid="browse-more"
          aria-expanded={unfolded}
          onClick={() => setUnfolded(!unfolded)}
        >
          Filters{chosen > 0 && ` (${chosen})`}
        </button>
        <div class={unfolded ? "choices unfolded" : "choices"}>
          <Choices {...filters} />
        </div>
      </div>
      <div class="chips" role="group" aria-label="States">
        {STATES.filter((state) => wanted.state.includes(state) || (page?.counts[state] ?? 1) > 0).map((state) => (
          <button
            type="button"
            key={state}
            class={wanted.state.includes(state) ? "chip on" : "chip"}
            data-testid={`state-${state}`}
            aria-pressed={wanted.state.includes(state)}
            onClick={() => toggle(state)}
          >
            {STATE_WORDS[state]} <span class="tally">{page ? number(page.counts[state] ?? 0) : ""}</span>
          </button>
        ))}
        {wanted.similar !== null && (
          <button
            type="button"
            class="chip on"
            data-testid="not-similar"
            title="Back to all items"
            onClick={() => onWant({ similar: null, page: 1 })}
          >
            Like item {wanted.similar} ✕
          </button>
        )}
        {wanted.lasso && (
          <button type="button" class="chip on" data-testid="no-lasso" onClick={() => onWant({ lasso: "", page: 1 })}>
            Inside the lasso ✕
          </button>
        )}
        {(isFiltered(wanted) || wanted.similar !== null) && (
          <button type="button" class="chip" data-testid="clear-filters" onClick={() => onWant(NOTHING)}>
            Show everything
          </button>
        )}
      </div>
    </header>
  );
}
