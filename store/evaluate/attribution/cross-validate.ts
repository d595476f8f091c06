/** Fits the coefficients of failure signs on labelled cases, and measures their accuracy on held-out cases. Pure. */
import { hashId } from '../../../ingest/events/json.ts';
import { textOfTruth } from '../judging/facts.ts';
import {
  type Candidate,
  REFERENCE_SIGNS,
  rankBlame,
  SIGNS,
  signsOf,
  signsWithReference,
} from '../methods/transcript-signs.ts';
import { type Attribution, type Blame, type LabelledCase, numberOf } from './cases.ts';
import { type FitCase, fitCoefficients } from './fit.ts';

/** The penalty that the published coefficients were fitted with. */
const L2 = 2;

type LabelledRow = { readonly run: LabelledCase; readonly candidates: readonly Candidate<string>[] } & FitCase;

/** Folds are made of whole tasks, in the order of the hashes of their ids, so that they do not depend on the order of the cases. */
export function crossValidate(
  method: 'failure_signs' | 'failure_signs_with_reference',
  cases: readonly LabelledCase[],
  folds: number,
): {
  /** Held-out predictions: each case by coefficients fitted without any run of its task. */
  readonly attribution: Attribution;
  /** By sign, fitted to all cases: what may be given to the method as parameters. */
  readonly coefficients: Readonly<Record<string, number>>;
} {
  const withReference = method === 'failure_signs_with_reference';
  const names: readonly string[] = withReference ? [...SIGNS, ...REFERENCE_SIGNS] : SIGNS;
  const rows = cases
    .filter((run) => !withReference || textOfTruth(run.reference) !== null)
    .map((run) =>
      rowOf(run, withReference ? signsWithReference(run, textOfTruth(run.reference)!) : signsOf(run), names),
    );
  const tasks = [...new Set(rows.map(({ run }) => run.task))].sort((a, b) => (hashId(a) < hashId(b) ? -1 : 1));
  const foldOf = new Map(tasks.map((task, i) => [task, i % folds]));
  const blames = new Map<string, Blame>();
  for (let fold = 0; fold < folds; fold++) {
    const [held, rest] = [true, false].map((out) => rows.filter(({ run }) => (foldOf.get(run.task) === fold) === out));
    if (held!.length === 0) continue;
    const coefficients = coefficientsOf(rest!, names);
    for (const row of held!) {
      const predicted = blameBy(row, coefficients);
      if (predicted) blames.set(row.run.episode_id, predicted);
    }
  }
  const all = coefficientsOf(rows, names);
  return {
    attribution: { name: `${method}, ${folds}-fold`, blames },
    coefficients: Object.fromEntries(names.map((name, j) => [name, Number(all[j]!.toFixed(2))])),
  };
}

const coefficientsOf = (rows: readonly LabelledRow[], names: readonly string[]): number[] =>
  fitCoefficients(
    rows.filter(({ target }) => target.some((share) => share > 0)),
    names.length,
    L2,
  );

/** All the blame on the labelled entry; where another agent wrote it, evenly on the entries of the labelled agent. */
function rowOf(run: LabelledCase, candidates: readonly Candidate<string>[], names: readonly string[]): LabelledRow {
  const { agent, entry } = run.truth;
  const own = candidates.map((one) => one.agent === agent);
  const right = candidates.map((one, k) => own[k]! && numberOf(run.entries, one.entry) === entry);
  const blamed = right.includes(true) ? right : own;
  const count = blamed.filter(Boolean).length;
  return {
    run,
    candidates,
    rows: candidates.map(({ signs }) => names.map((name) => signs[name]!)),
    target: blamed.map((one) => (one ? 1 / count : 0)),
  };
}

function blameBy({ run, candidates, rows }: LabelledRow, coefficients: readonly number[]): Blame | null {
  const scores = rows.map((row) => row.reduce((sum, value, j) => sum + value * coefficients[j]!, 0));
  const ranked = rankBlame(candidates, scores);
  if (ranked.length === 0) return null;
  const surest = ranked.reduce((best, one) => (one.entry_value > best.entry_value ? one : best));
  return { agent: ranked[0]!.agent, entry: numberOf(run.entries, surest.entry) };
}
