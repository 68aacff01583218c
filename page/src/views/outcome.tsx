// What came of something that was asked for, in lines; a screen reader says them when they appear.
export interface Outcome {
  good: boolean;
  lines: string[];
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
    </div>
  );
}
