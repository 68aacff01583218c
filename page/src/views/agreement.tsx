// How far people agree: figures for all and for each two people, class by class, and which classes they confuse.
import { className } from "../state.ts";
import type { Agreement } from "../types.ts";
import { number, percent, plural } from "../words.ts";

const PAIRS_LISTED = 40;
const CONFUSED_LISTED = 12;

/** A figure and, below its name, what it means. */
function FigureRow({ name, value, meaning }: { name: string; value: string; meaning: string }) {
  return (
    <tr>
      <th scope="row">
        {name} <small>{meaning}</small>
      </th>
      <td>{value}</td>
    </tr>
  );
}

const beyondChance = (figure: number | null) => (figure === null ? "–" : figure.toFixed(2));

function Agreed({ agreement, disputed }: { agreement: Agreement; disputed: number }) {
  return (
    <section class="panel wide" data-testid="agreement">
      <h2>Agreement</h2>
      <p>
        {plural(agreement.items, "item")} labelled by two or more.{" "}
        {disputed > 0 && (
          <>
            On <b>{number(disputed)}</b> they differ and nobody has decided: what most of them say counts meanwhile.{" "}
            <a href="#/review/disputes">Settle</a>
          </>
        )}
      </p>
      <div class="beside">
        <div>
          <table class="meaning" data-testid="agreement-figures">
            <thead>
              <tr>
                <th scope="col">Figure</th>
                <th scope="col">Value</th>
              </tr>
            </thead>
            <tbody>
              <FigureRow
                name="Alike"
                value={agreement.share === null ? "–" : percent(agreement.share)}
                meaning="Of all pairs of answers for the same item, how many are the same."
              />
              <FigureRow
                name="Fleiss’ kappa"
                value={beyondChance(agreement.fleiss)}
                meaning="1: always alike; 0: as often as people who guess at the rates of all answers; below: less often."
              />
              <FigureRow
                name="Krippendorff’s alpha"
                value={beyondChance(agreement.alpha)}
                meaning="The same scale, with a correction for few items, for any number of people an item."
              />
            </tbody>
          </table>
        </div>
        {agreement.pairs.length > 0 && (
          <div>
            <div class="scroll-x tall" tabIndex={0} role="region" aria-label="Agreement of each two people">
              <table class="pairs" data-testid="agreement-pairs">
                <thead>
                  <tr>
                    <th scope="col">Two people</th>
                    <th scope="col">Items</th>
                    <th scope="col">Alike</th>
                    <th scope="col" title="1: always alike; 0: as if each guessed at their own rates">
                      Cohen’s kappa
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {agreement.pairs.slice(0, PAIRS_LISTED).map((pair) => (
                    <tr key={`${pair.first} ${pair.second}`}>
                      <th scope="row" title={`${pair.first} and ${pair.second}`}>
                        {pair.first} and {pair.second}
                      </th>
                      <td>{number(pair.items)}</td>
                      <td>{percent(pair.share)}</td>
                      <td>{beyondChance(pair.kappa)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            <p class="faint small">
              Cohen’s kappa is 1 where two people always agree and 0 where they agree as often as if each guessed at their own
              rates.
            </p>
          </div>
        )}
      </div>
    </section>
  );
}

/** By their names: a class may be called like another's number. */
const disputesOf = (first: number, second: number) =>
  `#/review/disputes?${new URLSearchParams({ label: className(first), other: className(second) }).toString()}`;

/** Which classes people agree on, and which they confuse: the link leads to the items. */
function AgreedByClass({ agreement }: { agreement: Agreement }) {
  const scores = [...agreement.by_class].sort((a, b) => a.share - b.share);
  return (
    <section class="panel wide">
      <h2>Agreement by class</h2>
      <div class="beside">
        <div>
          <div class="scroll-x tall" tabIndex={0} role="region" aria-label="Agreement by class">
            <table data-testid="agreement-by-class">
              <thead>
                <tr>
                  <th scope="col">Class</th>
                  <th scope="col">Agreement</th>
                  <th scope="col">Answers</th>
                  <th scope="col">Items</th>
                </tr>
              </thead>
              <tbody>
                {scores.map((score) => (
                  <tr key={score.label}>
                    <th scope="row" title={className(score.label)}>
                      {className(score.label)}
                    </th>
                    <td class="range">
                      <span class="whole" aria-hidden="true">
                        <span style={{ left: "0", width: percent(score.share) }} />
                      </span>
                      <span>{percent(score.share)}</span>
                    </td>
                    <td>{number(score.answers)}</td>
                    <td>{number(score.items)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <p class="faint small">Where one person says the class, how often another who saw the item says it too.</p>
        </div>
        {agreement.confused.length > 0 && (
          <div>
            <h3>Confused with each other</h3>
            <ul class="plain" data-testid="agreement-confused">
              {agreement.confused.slice(0, CONFUSED_LISTED).map(({ first, second, items }) => (
                <li key={`${first} ${second}`}>
                  <b>{className(first)}</b> and <b>{className(second)}</b>: {plural(items, "item")}{" "}
                  <a
                    href={disputesOf(first, second)}
                    aria-label={`Disputed ${className(first)} and ${className(second)}`}
                  >
                    Look
                  </a>
                </li>
              ))}
              {agreement.confused.length > CONFUSED_LISTED && (
                <li class="faint">and {agreement.confused.length - CONFUSED_LISTED} other pairs</li>
              )}
            </ul>
          </div>
        )}
      </div>
    </section>
  );
}

export function AgreementPanels({ agreement, disputed }: { agreement: Agreement; disputed: number }) {
  return (
    <>
      <Agreed agreement={agreement} disputed={disputed} />
      <AgreedByClass agreement={agreement} />
    </>
  );
}
