// The ways to look at many items: as a list, and on the map.
import { may, view } from "../state.ts";
import type { View } from "../state.ts";

const TABS: { view: View; href: string; words: string }[] = [
  { view: "browse", href: "#/browse", words: "List" },
  { view: "map", href: "#/map", words: "Map" },
];

export function ListTabs() {
  if (!may("reviewer")) return null; // the map shows what everybody said
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
