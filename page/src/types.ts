// What the server answers, field by field: the dataclasses of understudy/sessions/replies.py.

export interface Shown {
  item: number;
  id: string;
  kind: string;
  text: string | null;
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
  note: string;
}

export interface Stored {
  stored: number;
  repeated: boolean;
  next: Question;
  labelled: number;
  trained_at: number | null;
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

export interface Likely extends Shown {
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
}

export interface Agreement {
  items: number;
  share: number | null;
  alpha: number | null;
  pairs: { first: string; second: string; items: number; share: number; kappa: number | null }[];
  disagreements: { item: number; labels: Record<string, number> }[];
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

export interface Me {
  annotator: string | null;
  login: boolean;
  fixed: boolean;
}
