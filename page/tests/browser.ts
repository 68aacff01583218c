// A storage like the browser's, for tests in Node.
export class MemoryStorage implements Storage {
  private readonly kept = new Map<string, string>();
  full = false;
  [name: string]: unknown;
  get length(): number {
    return this.kept.size;
  }
  key(index: number): string | null {
    return [...this.kept.keys()][index] ?? null;
  }
  getItem(name: string): string | null {
    return this.kept.get(name) ?? null;
  }
  setItem(name: string, value: string): void {
    if (this.full) throw new Error("quota");
    this.kept.set(name, value);
  }
  removeItem(name: string): void {
    this.kept.delete(name);
  }
  clear(): void {
    this.kept.clear();
  }
}
