/** How each kind of training job trains a learner on the rows of a frozen dataset. */
import { TroupeError } from '../../../errors.ts';
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { OpenedDataset } from '../../../store/datasets/read.ts';
import { shuffledOrder } from '../../learn/data/orders.ts';
import { pairs, policyRows, supervisedRows, tokensOf, tokensOfPair, valuedRows } from '../../learn/data/readers.ts';
import { type DataReader, readSplit, requireRows, type TrainingData } from '../../learn/data/training-data.ts';
import type { TrainingRow } from '../../learn/data/training-rows.ts';
import { DEFAULTS } from '../../learn/defaults.ts';
import type { Learner } from '../../learn/learner.ts';
import { courseOf, dpoOptions, rlOptions, sftOptions } from '../../learn/numbers.ts';
import { preference, referenceScores } from '../../learn/preference.ts';
import { policyPlan, rlPass, withReference } from '../../learn/rl.ts';
import { roleOrder } from '../../learn/role-steps.ts';
import { sft } from '../../learn/sft.ts';
import type { FinishedStep, Watch } from '../../learn/training-loop.ts';
import { trainValueHead } from '../../learn/value-head.ts';
import type { JobMemory } from './job-memory.ts';
import type { DpoSpec, RlSpec, SftSpec, ValueSpec } from './job-specs.ts';
import { type Reporting, stepMetrics } from './reports.ts';

/** What a training works on. `watch`: what it reports to, with the role of each step where its rows have roles. */
export type TrainingOn = {
  readonly learner: Learner;
  readonly dataset: OpenedDataset;
  readonly memory: JobMemory;
  readonly watch: (roleOf?: Reporting['roleOf']) => Watch;
};

/** Supervised steps, as many of each role as the spec asks for. Resolves with each role's loss at the end. */
export async function trainSupervised({ learner, dataset, memory, watch }: TrainingOn, spec: SftSpec) {
  const { steps, batch = DEFAULTS.batch, seed } = spec;
  const { rows, ...left } = rowsIn(dataset, supervisedRows(learner.open, longestOf(learner)));
  memory.require(learner, { tokens: rows.map(tokensOf), rowsPerStep: batch, what: 'rows a step (batch)' });
  const { roleOf, ...taken } = roleOrder(
    rows.map(({ role = '' }) => role),
    { steps, batch, seed },
  );
  const byRole = watch((step) => roleOf(step - 1));
  const { curves } = await sft(learner.model, rows, sftOptions(taken, spec), byRole);
  return { ...lateLosses(curves.loss, roleOf), ...left };
}

/** DPO against the weights that the learner begins with. Resolves with the last value of each metric. */
export async function trainPreference({ learner, dataset, memory, watch }: TrainingOn, spec: DpoSpec) {
  const { model, open } = learner;
  const { steps, batch = DEFAULTS.batch, seed } = spec;
  const { rows, ...left } = rowsIn(dataset, pairs(open, longestOf(learner)));
  memory.require(learner, {
    tokens: rows.map(tokensOfPair),
    rowsPerStep: batch,
    what: 'pairs a step (batch)',
    sharedPrompts: true,
  });
  const order = shuffledOrder(rows.length, { batch }, seed);
  const reference = await referenceScores(model, rows);
  const { curves } = await preference(model, rows, { ...dpoOptions({ steps, order }, spec), reference }, watch());
  const last = Object.entries({ loss: curves.loss, ...curves.metrics }).map(([name, all]) => [name, all.at(-1) ?? 0]);
  return { ...(Object.fromEntries(last) as Record<string, number>), ...left };
}

/** A value head on rewards, or on advantages where the recipe names a credit method. */
export async function trainValue({ learner, dataset, memory, watch }: TrainingOn, spec: ValueSpec) {
  const { of, loss = DEFAULTS.value_loss, steps, batch = DEFAULTS.batch } = spec;
  const range = loss === 'cross-entropy' ? 'share' : 'any';
  const { rows, ...left } = rowsIn(dataset, valuedRows(learner.open, longestOf(learner), { of, range }));
  memory.require(learner, { tokens: rows.map(tokensOf), rowsPerStep: batch, what: 'rows a step (batch)' });
  let last: FinishedStep | null = null;
  const watched = watch();
  const onStep = async (done: FinishedStep) => {
    last = done;
    await watched.onStep?.(done);
  };
  const course = courseOf('value', { steps, order: shuffledOrder(rows.length, { batch }, spec.seed) }, spec);
  await trainValueHead(learner.model, rows, { ...course, loss }, { ...watched, onStep });
  return { rows: rows.length, ...stepMetrics([last!]), ...left };
}

/** One pass of a policy gradient. Resolves with the metrics of each role, and what was left out. */
export async function trainPolicy({ learner, dataset, memory, watch }: TrainingOn, spec: RlSpec) {
  const { model } = learner;
  const data = readSplit(dataset, 'train', policyRows(longestOf(learner)));
  const { rows } = data;
  requireAdvantages(rows, dataset);
  const options = rlOptions(spec, model);
  // Without a row it makes no step: all groups were left out for want of a signal.
  if (rows.length > 0)
    memory.require(learner, {
      tokens: rows.map(tokensOf),
      rowsPerStep: rowsOfStep(rows, options.roles),
      what: 'rows a step (groups)',
    });
  const scored = (options.kl ?? 0) > 0 ? await withReference(model, rows) : rows;
  const { steps } = policyPlan(scored, options);
  const { roles } = await rlPass(
    model,
    scored,
    options,
    watch((step) => steps[step - 1]!.role),
  );
  return { roles, left: leftOut(data) };
}

/** Groups that are all right or all wrong teach nothing, which is an outcome; advantages that nobody could compute are a fault. */
function requireAdvantages(rows: readonly TrainingRow[], { manifest }: OpenedDataset): void {
  if (rows.length === 0 || rows.some(({ advantage }) => advantage !== null)) return;
  const credit = manifest.recipe.credit?.method;
  const why = credit
    ? `troupe sql "select reason, count(*) from traj.credits where method = '${credit}' group by 1" shows why ${credit} gave none.`
    : 'Name a credit method as `credit` in the recipe.';
  throw new TroupeError('training_failed', `None of the ${rows.length} rows has an advantage. ${why}`);
}

/** Of each role its mean loss over the last tenth of its steps. */
function lateLosses(losses: readonly number[], roleOf: (step: number) => string): Record<string, { loss: number }> {
  const byRole = groupBy(
    losses.map((loss, step) => ({ loss, role: roleOf(step) })),
    ({ role }) => role,
  );
  return Object.fromEntries(
    [...byRole].map(([role, all]) => {
      const late = all.slice(-Math.ceil(all.length / 10));
      return [role, { loss: late.reduce((sum, { loss }) => sum + loss, 0) / late.length }];
    }),
  );
}

/** Rows of a step at most: as many groups of each role as are asked for, each as large as the largest. */
function rowsOfStep(rows: readonly TrainingRow[], roles: readonly { readonly groups: number }[]): number {
  const sizes = new Map<string, number>();
  for (const { group } of rows) sizes.set(group, (sizes.get(group) ?? 0) + 1);
  const groups = roles.reduce((sum, one) => sum + one.groups, 0);
  return Math.min(rows.length, groups * Math.max(1, ...sizes.values()));
}

/** The rows that a job learns from, and how many were cut or left out for their length. */
function rowsIn<R>(dataset: OpenedDataset, reader: DataReader<R>) {
  const data = requireRows(dataset.manifest.dataset_id, 'train', readSplit(dataset, 'train', reader));
  const [first] = data.refused;
  if (first !== undefined)
    throw new TroupeError(
      'input_refused',
      `${first.field || 'The row'} of row ${first.line} of the dataset should be ${first.expected}, it is ${first.got}.`,
    );
  return { rows: data.rows, ...leftOut(data) };
}

const leftOut = ({ cut, skipped }: TrainingData<unknown>) => ({
  ...(cut > 0 ? { rows_cut: cut } : {}),
  ...(skipped > 0 ? { rows_left_out: skipped } : {}),
});

const longestOf = ({ open }: Learner): number => open.config.max_position_embeddings;
