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
  suggestion: number | null;
  confidence: number | null;
  flagged: boolean;
  mine: number | null;
  reason: string | null;
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
}

export interface Doubt extends Shown {
  label: number;
  by: string;
  expected: number;
  surprise: number;
}

export interface Likely extends Shown {
  probability: number;
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

export interface Progress {
  curve: CurvePoint[];
  hint: { advice: string; line: string; promise: number | null };
  asked_accuracy: number | null;
  class_counts: number[];
  people: Person[];
  agreement: Agreement | null;
  failures: string[];
}

export interface ItemCard extends Shown {
  label: number | null;
  labels: Record<string, number>;
  flagged: boolean;
  bad: boolean;
  note: string | null;
}

export interface Me {
  annotator: string | null;
  login: boolean;
  fixed: boolean;
}
