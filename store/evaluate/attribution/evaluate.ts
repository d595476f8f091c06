/** Every attribution, scored against the labels of people, over all labelled episodes and by group. */
import { TroupeError } from '../../../errors.ts';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { KEYED } from '../../../ingest/log/keyed.ts';
import type { Db, Session } from '../../db/pool.ts';
import {
  type Attribution,
  annotatedAttributions,
  judgedAttributions,
  type LabelledCase,
  labelledCases,
} from './cases.ts';
import { crossValidate } from './cross-validate.ts';
import { agreements, distributions, readModes } from './mast-agreement.ts';
import { type Match, type ScoreRow, score } from './score.ts';

export type Grouping = 'origin' | 'difficulty' | 'coordination';

/** How cases are grouped. `coordination`: whether an agent of the team hands over to others. */
const GROUP_OF: Readonly<Record<Grouping, (run: LabelledCase) => string>> = {
  origin: (run) => run.origin,
  difficulty: (run) => run.difficulty,
  coordination: ({ entries }) => (entries.some((one) => one.hands_over) ? 'coordinated' : 'not coordinated'),
};

export type AttributionReport = {
  readonly match: Match;
  readonly cases: number;
  readonly unlabelled: number;
  readonly ambiguous: number;
  readonly agent_mismatch: number;
  /** The first is all of them; a group of its own only where there is more than one. */
  readonly groups: readonly { readonly group: string; readonly cases: number; readonly scores: readonly ScoreRow[] }[];
  /** Fitted to all cases, by method; nothing without cross-validation. */
  readonly coefficients: Readonly<Record<string, Readonly<Record<string, number>>>>;
};

export type Question = {
  readonly method: string | null;
  readonly annotator: string | null;
  /** The annotator taken as right; null for every label not given by a model. */
  readonly gold: string | null;
  readonly by: Grouping;
  readonly match: Match;
  /** Folds; null for none. */
  readonly crossValidate: number | null;
};

/** @throws TroupeError `not_found` where the requested method or annotator gave no attributions. */
export async function evaluateAttributions(db: Db, asked: Question): Promise<AttributionReport> {
  const { cases, unlabelled, ambiguous, attributions } = await reading(db, async (tx) => {
    const labelled = await labelledCases(tx, asked.gold);
    const judged = asked.annotator !== null && asked.method === null ? [] : await judgedAttributions(tx, asked.method);
    const annotated =
      asked.method !== null && asked.annotator === null ? [] : await annotatedAttributions(tx, asked.annotator);
    return { ...labelled, attributions: [...judged, ...annotated] };
  });
  const wanted = asked.method ?? asked.annotator;
  if (wanted !== null && asked.crossValidate === null && attributions.length === 0) {
    throw new TroupeError(
      'not_found',
      `Nothing is recorded of ${wanted}. \`troupe judge --methods NAME\` judges by a method, \`troupe blame annotate\` asks a model.`,
    );
  }
  const fitted =
    asked.crossValidate === null
      ? []
      : (['failure_signs', 'failure_signs_with_reference'] as const).map((method) => ({
          method,
          ...crossValidate(method, cases, asked.crossValidate!),
        }));
  const all: readonly Attribution[] = [...attributions, ...fitted.map(({ attribution }) => attribution)];
  const groups = groupBy(cases, GROUP_OF[asked.by]);
  const parts: (readonly [string, readonly LabelledCase[]])[] = [
    ['all', cases],
    ...(groups.size > 1 ? [...groups].sort(([a], [b]) => (a < b ? -1 : 1)) : []),
  ];
  return {
    match: asked.match,
    cases: cases.length,
    unlabelled,
    ambiguous,
    agent_mismatch: cases.filter(({ mismatch }) => mismatch).length,
    groups: parts.map(([group, own]) => ({ group, cases: own.length, scores: score(own, all, asked.match) })),
    coefficients: Object.fromEntries(fitted.map(({ method, coefficients }) => [method, coefficients])),
  };
}

/** What annotators found by the taxonomy of MAST, and how far each two agree. */
export async function evaluateModes(db: Db) {
  const found = await reading(db, readModes);
  return { annotators: distributions(found), agreement: agreements(found) };
}

const reading = <T>(db: Db, work: (tx: Session) => Promise<T>): Promise<T> =>
  db.transaction(
    async (tx) => {
      await tx.query(`set local search_path = facts, pg_catalog; ${KEYED}`);
      return work(tx);
    },
    { readOnly: true },
  );
