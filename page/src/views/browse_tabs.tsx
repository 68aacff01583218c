// The two ways to look at many items: as a list, and on the map.
export function BrowseTabs({ on }: { on: "list" | "map" }) {
  const tabs = [
    ["list", "List", "#/browse"],
    ["map", "Map", "#/map"],
  ] as const;
  return (
    <nav class="tabs" aria-label="List or map">
      {tabs.map(([key, name, href]) => (
        <a key={key} href={href} data-testid={`tab-${key}`} aria-current={on === key ? "page" : undefined}>
          {name}
        </a>
      ))}
    </nav>
  );
}
