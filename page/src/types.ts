// What the server answers, field by field: the dataclasses of understudy/sessions/replies.py.

/** A project of several under one server, as their list shows it. */
export interface ListedProject {
  name: string;
  address: string;
  kind: string;
  phase: string;
  done: number;
  labelled: number;
  total: number;
  accuracy: number | null;
  interval: [number, number] | null;
  online: string[];
  to_do: string[];
  reason: string | null;
}

export interface ProjectList {
  projects: ListedProject[];
  more: boolean;
}

export interface Column {
  name: string;
  value: string;
}

export interface Shown {
  item: number;
  id: string;
  kind: string;
  text: string | null;
  columns: Column[];
}

export interface OwnWork {
  labels: number;
  quota: number | null;
  done: number;
  part: number;
}

export interface Question {
  item: number | null;
  id: string | null;
  kind: string | null;
  text: string | null;
  ask: string | null;
  lease_seconds: number | null;
  lease_until: number | null;
  lease: number | null;
  suggestion: number | null;
  confidence: number | null;
  flagged: boolean;
  mine: number | null;
  reason: string | null;
  columns: Column[];
  note: string;
  work: OwnWork | null;
}

export interface Stored {
  stored: number;
  repeated: boolean;
  next: Question;
  labelled: number;
  trained_at: number | null;
  left_out: number[];
}

export interface Copy {
  item: number;
  id: string;
  kind: string;
  text: string | null;
  exact: boolean;
  distance: number;
}

export interface Copies {
  item: number;
  copies: Copy[];
  labelled: number;
  audit: number;
  elsewhere: number;
  line: string;
}

export interface Undone {
  stored: number;
  repeated: boolean;
  undone: number;
  what: string;
  next: Question;
}

export interface Training {
  state: string;
  at_labels: number | null;
  next_at: number | null;
  seconds: number | null;
  reason: string | null;
}

export interface FeaturesNote {
  encoder: string;
  what: string;
  is_weak: boolean;
  advice: string | null;
  command: string | null;
}

export interface CalibrationStatus {
  rough: boolean;
  audited: number;
  sentence: string;
}

export interface AuditPlan {
  items: number;
  share: number;
  half_width: number | null;
  least: number;
  usual: number;
  raise_to: number | null;
  line: string;
}

export interface Folders {
  taken_for: string;
  count: number;
  names: string[];
  items: number;
  loose: number;
  looks: string | null;
  line: string;
}

export interface Status {
  project: string;
  phase: string;
  done: number;
  kind: string;
  classes: string[];
  class_counts: number[];
  labelled: number;
  total: number;
  skipped: number;
  unknown: number;
  bad: number;
  flagged: number;
  audited: number;
  audit_missing: number;
  accuracy: number | null;
  interval: [number, number] | null;
  trained_at: number | null;
  model: string | null;
  training: Training;
  online: string[];
  suspicious: number;
  version: number;
  features: FeaturesNote | null;
  calibration: CalibrationStatus | null;
  audit: AuditPlan | null;
  folders: Folders | null;
  class_order: number[];
  class_styles: ClassStyle[];
  class_news: { seq: number; by: string | null; line: string } | null;
  disputed: number;
  items_news: { seq: number; count: number; line: string } | null;
  joining: { done: number; total: number } | null;
  setup: { phase: string; share: number } | null;
  slow_or_lost: string[];
}

export interface SourceLook {
  new: number;
  unusable: number;
  gone: number;
  notes: string[];
}

export interface ClassStyle {
  number: number;
  shortcut: string | null;
  colour: string | null;
  description: string;
}

export interface ClassShown extends ClassStyle {
  name: string;
  count: number;
  hidden: boolean;
  examples: Shown[];
  former_names: string[];
  gone: string | null;
  into: number | null;
}

export interface ClassList {
  classes: ClassShown[];
  changes: { seq: number; at: number; by: string | null; line: string; kept: string | null }[];
}

export interface Factor {
  value: number;
  low: number;
  middle: number;
  high: number;
}

export interface Why {
  item: number;
  line: string;
  ask: string | null;
  influence_share: number | null;
  uncertainty_share: number | null;
  n_taught: number;
  teaches: { item: number; share: number }[];
  nearest: { item: number; label: string | null; distance: number }[];
  influence: Factor | null;
  uncertainty: Factor | null;
}

export interface Doubt extends Shown {
  label: number;
  by: string;
  expected: number;
  surprise: number;
}

export interface Likely {
  item: number;
  id: string;
  kind: string;
  text: string | null;
  probability: number | null;
}

export interface GridOffer {
  items: Likely[];
  promised: number | null;
  likely: number;
  reason: string;
}

export interface MapShown {
  items: number;
  layout: string;
  is_being_made: boolean;
  trouble: string | null;
  points: string;
  colours: string;
}

export interface CurvePoint {
  labels: number;
  accuracy: number | null;
  low: number | null;
  high: number | null;
  audited: number;
  asked_accuracy: number | null;
  at: number;
}

export interface Person {
  name: string;
  online: boolean;
  labels: number;
  skipped: number;
  unknown: number;
  median_seconds: number | null;
  agreement: number | null;
  kappa: number | null;
  skipped_share: number | null;
  unknown_share: number | null;
  pace: number | null;
  pace_today: number | null;
  labels_today: number;
  active_seconds: number;
  reviewed: number;
  review_agreement: number | null;
  retired: boolean;
  share: number | null;
  classes: number[];
  quota: number | null;
  remaining: number | null;
  part: number;
  part_done: number;
}

export interface Agreement {
  items: number;
  share: number | null;
  alpha: number | null;
  pairs: { first: string; second: string; items: number; share: number; kappa: number | null }[];
  disagreements: { item: number; labels: Record<string, number> }[];
  fleiss: number | null;
  by_class: { label: number; share: number; answers: number; items: number }[];
  confused: { first: number; second: number; items: number; pairs: number }[];
}

export interface Opinion {
  annotator: string;
  label: number | null;
  at: number | null;
  source: string | null;
  note: string | null;
  unknown: boolean;
  is_later: boolean;
}

export interface SettlementShown {
  label: number;
  by: string;
  at: number;
  note: string;
  contradicted_by: string[];
}

export interface Dispute extends Shown {
  state: string;
  label: number;
  resolution: string;
  majority: number | null;
  is_tie: boolean;
  opinions: Opinion[];
  settlement: SettlementShown | null;
}

export interface DisputeList {
  disputes: Dispute[];
  found: number;
  disputed: number;
  review: number;
  settled: number;
}

export interface ClassScore {
  label: number;
  right: number;
  audited: number;
  accuracy: number | null;
  low: number | null;
  high: number | null;
  predicted: number;
}

export interface Confusion {
  label: number;
  predicted: number;
  count: number;
}

export interface Progress {
  curve: CurvePoint[];
  hint: { advice: string; line: string; promise: number | null };
  asked_accuracy: number | null;
  class_counts: number[];
  people: Person[];
  agreement: Agreement | null;
  failures: string[];
  by_class: ClassScore[];
  confusions: Confusion[];
  notes: string[];
  data_notes: string[];
}

export interface SettingShown {
  name: string;
  value: boolean | number | string | string[] | null;
  default: boolean | number | string | string[] | null;
  meaning: string;
  kind: string;
  least: number | null;
  most: number | null;
  choices: string[] | null;
  fixed: string | null;
}

export interface ProjectSettings {
  settings: SettingShown[];
  notes: string[];
}

export interface ItemCard extends Shown {
  label: number | null;
  labels: Record<string, number>;
  skipped_by: string[];
  unknown_to: string[];
  bad: boolean;
  flagged: boolean;
  note: string | null;
}

export interface BrowsedItem extends Shown {
  states: string[];
  label: number | null;
  labels: { by: string; label: number; at: number; source: string }[];
  skipped_by: string[];
  unknown_to: string[];
  bad_by: string[];
  flags: { by: string; note: string }[];
  at: number | null;
  held_by: string | null;
  suggestion: number | null;
  confidence: number | null;
  surprise: number | null;
  distance: number | null;
}

export interface BrowsePage {
  items: BrowsedItem[];
  total: number;
  offset: number;
  counts: Record<string, number>;
  people: string[];
  rows: number[];
}

export interface FormatCard {
  format: string;
  title: string;
  holds: string;
  is_of_model: boolean;
  suffixes: string[];
}

export type Role = "annotator" | "reviewer" | "owner";

export interface Me {
  annotator: string | null;
  person: string | null;
  role: Role | null;
  login: boolean;
  fixed: boolean;
  several?: string; // only where a server has several projects: "project", or "list" for the list of them
}

export interface PersonShown {
  person: string;
  name: string;
  role: Role;
  retired: boolean;
  former_names: string[];
  added: boolean;
  online: boolean;
  labels: number;
}

export interface PeopleList {
  people: PersonShown[];
  changes: { seq: number; at: number; by: string | null; line: string; kept: string | null }[];
}

export interface Team extends PeopleList {
  entry: "open" | "links" | "password";
  linked: string[];
  issued: { person: string; name: string; token: string } | null;
}
