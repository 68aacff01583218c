// The ways to look at the items of a list, where there is more than one.
import { view } from "../state.ts";
import type { View } from "../state.ts";

const TABS: { view: View; href: string; words: string }[] = [{ view: "browse", href: "#/browse", words: "List" }];

export function ListTabs() {
  if (TABS.length < 2) return null;
  return (
    <nav class="list-tabs" aria-label="Ways to look at the items">
      {TABS.map((tab) => (
        <a key={tab.view} href={tab.href} data-testid={`tab-${tab.view}`} aria-current={view.value === tab.view ? "page" : undefined}>
          {tab.words}
        </a>
      ))}
    </nav>
  );
}
