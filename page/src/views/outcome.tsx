// What came of something that was asked for, in lines; a screen reader says them when they appear.
export interface Outcome {
  good: boolean;
  lines: string[];
  insist?: () => void; // it is easily taken for another class: do it all the same
}

export function OutcomeList({ outcome, testid }: { outcome: Outcome | null; testid: string }) {
  return (
    <div role="status" data-testid={testid}>
      {outcome && (
        <ul class={outcome.good ? "result" : "result bad"}>
          {outcome.lines.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      )}
      {outcome?.insist && (
        <button type="button" data-testid="insist" onClick={outcome.insist}>
          Both are meant
        </button>
      )}
    </div>
  );
}
