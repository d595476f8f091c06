/** The rows, starting weights and cost of each policy of a plan that is checked. */

import { meantBy } from '../../../document.ts';
import { TroupeError } from '../../../errors.ts';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { isMethod, judgedMethods } from '../../../store/datasets/chosen-methods.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { whyEmpty } from '../../../store/datasets/manifest.ts';
import { type OpenedDataset, openDataset } from '../../../store/datasets/read.ts';
import { parseRecipe, type Recipe } from '../../../store/datasets/recipe.ts';
import type { Db } from '../../../store/db/pool.ts';
import { firstOf, query } from '../../../store/db/query.ts';
import { METHOD_NAMES } from '../../../store/evaluate/methods/catalogue.ts';
import { comparisonsOf, factsOf, looksAtJudgement, splitFilter } from '../../../store/filter/select.ts';
import { cutPair, preferenceRows } from '../../learn/data/preference-rows.ts';
import { cutRow, type StepRow, supervisedRow } from '../../learn/data/training-rows.ts';
import { DEFAULTS } from '../../learn/defaults.ts';
import { NO_SIGNAL } from '../../learn/rl.ts';
import { type OpenModel, openModelForIds } from '../../model/model-directory.ts';
import type { CheckContext, Findings, PolicyCheck, RolloutCheck } from './check-found.ts';
import { rolesCheck } from './check-roles.ts';
import type { Plan, PlanPolicy } from './plan-schema.ts';
import { asJudged, withoutGates } from './round-rows.ts';
import { type AdapterCheck, adapterCheck, checkpointBytes, memoryOf } from './training-cost.ts';
import type { Checkpoint } from './weights.ts';

/** Rows looked at for the mean number of tokens. */
const SAMPLE = 200;

/** The recipe as a dataset of now; null where its methods have not been run. */
export async function frozen(
  { db, folder, ...options }: CheckContext,
  recipe: Readonly<Record<string, unknown>>,
  plan: Plan,
  notes: string[],
): Promise<OpenedDataset | null> {
  try {
    const { directory } = await freeze(db, await asJudged(parseRecipe(recipe), plan.judge), {
      ...options,
      directory: folder,
      allowEmpty: true,
    });
    return await openDataset(directory);
  } catch (error) {
    if (!(error instanceof TroupeError) || error.code !== 'not_found' || !plan.judge) throw error;
    notes.push(`Rows of ${recipe.name} are not counted: ${error.message} The stage judge does that.`);
    return null;
  }
}

/** The recipe without what the methods of the plan choose by: it takes at least as many rows. */
export function unjudged({ name, where, unit, roles }: Recipe): Readonly<Record<string, unknown>> {
  const { episode, step } = splitFilter(where);
  return {
    name,
    where: { and: [...episode, ...step].filter((part) => !looksAtJudgement(part)) },
    // Pairs are made of steps, by a reward or a credit.
    unit: unit === 'episode' ? unit : 'step',
    ...(roles === null ? {} : { roles }),
  };
}

export const stepsOf = (dataset: OpenedDataset | null, split: string): StepRow[] =>
  dataset?.splits.some((name) => name === split) ? ([...dataset.rows(split)] as unknown as StepRow[]) : [];

export async function policyCheck(
  db: Db,
  {
    name,
    policy,
    start,
    dataset,
    rollout,
    rounds,
  }: {
    readonly name: string;
    readonly policy: PlanPolicy;
    readonly start: Checkpoint | null;
    readonly dataset: OpenedDataset | null;
    readonly rollout: RolloutCheck | null;
    readonly rounds: number;
  },
  { problems, notes }: Findings,
): Promise<PolicyCheck> {
  const { train } = policy;
  const method = train.engine === 'command' ? `program ${train.use}` : train.method;
  const rows = dataset?.manifest.rows ?? null;
  const roles = [...new Set(stepsOf(dataset, 'train').map(({ role }) => role ?? ''))].sort();
  const unknown = { tokens: null, minutes: null, adapter: null, memory_bytes: null, checkpoint_bytes: null };
  const found: PolicyCheck = { ...unknown, method, start, rows, roles, by_role: {} };
  if (start === null) return found;
  try {
    const open = await openModelForIds(start.directory);
    if (train.engine === 'command') return found;
    const groups = dataset === null ? null : groupsByRole(stepsOf(dataset, 'train'));
    const asked = { name, policy: { ...policy, train }, config: open.config, roles, groups, rollout, rounds };
    const by_role = await rolesCheck(db, asked, notes);
    const adapter = adapterCheck(train, open);
    if (adapter !== null) notes.push(adapterNote(name, adapter));
    const checkpoint_bytes = checkpointBytes(train, open.config);
    if (!rows?.train) return { ...found, by_role, adapter, checkpoint_bytes };
    const lengths = tokensOf(open, stepsOf(dataset, 'train'));
    const mean = lengths.reduce((a, b) => a + b, 0) / lengths.length;
    const tokens = Math.round(mean * rowsSeen(train, rows.train, roles));
    const speed = await lastSpeed(db, method);
    return {
      ...found,
      by_role,
      tokens,
      minutes: speed === null ? null : tokens / speed / 60,
      adapter,
      checkpoint_bytes,
      memory_bytes: Math.round(memoryOf(train, open.config, { rows: stepsOf(dataset, 'train'), lengths })),
    };
  } catch (error) {
    if (!(error instanceof TroupeError)) throw error;
    problems.push(`${name} cannot be trained from the weights in ${start.directory}: ${error.message}`);
    return found;
  }
}

const adapterNote = (name: string, { parameters, of_parameters, base, continues }: AdapterCheck): string =>
  `${name} trains an adapter of ${parameters} numbers over ${base}, which has ${of_parameters} and stays as it is${continues === null ? '' : `; it goes on with the adapter of ${continues}`}.`;

/** Groups of each role, and how many of them have an advantage other than 0. */
function groupsByRole(rows: readonly StepRow[]): ReadonlyMap<string, { all: number; useful: number }> {
  const known = rows.filter(({ advantage }) => advantage !== null && advantage !== undefined);
  const byRole = groupBy(known, ({ role }) => role ?? '');
  return new Map(
    [...byRole].map(([role, mine]) => {
      const groups = [...groupBy(mine, (row) => row.group_id ?? row.task_id ?? row.episode_id).values()];
      const useful = groups.filter((group) => group.some(({ advantage }) => Math.abs(advantage!) > NO_SIGNAL));
      return [role, { all: groups.length, useful: useful.length }];
    }),
  );
}

/** Rows that pass through the model in one round. */
function rowsSeen(
  train: Exclude<PlanPolicy['train'], { engine: 'command' }>,
  rows: number,
  roles: readonly string[],
): number {
  if (train.method === 'rl') return rows * (train.epochs ?? DEFAULTS.epochs);
  const { steps, batch = DEFAULTS.batch } = train;
  if (typeof steps === 'number' && train.method !== 'sft') return (train.method === 'dpo' ? 2 : 1) * steps * batch;
  const all = typeof steps === 'number' ? steps * roles.length : Object.values(steps).reduce((a, b) => a + b, 0);
  return all * batch;
}

/** Tokens of the first answers that have something to learn, with their prompts. @throws TroupeError `training_failed` where no row has any */
function tokensOf(open: OpenModel, rows: readonly StepRow[]): number[] {
  const lengths: number[] = [];
  for (const row of rows) {
    if (lengths.length >= SAMPLE) break;
    lengths.push(...lengthsOf(open, row));
  }
  if (lengths.length === 0)
    throw new TroupeError(
      'training_failed',
      `none of ${rows.length} rows has anything to learn within its ${open.config.max_position_embeddings} tokens.`,
    );
  return lengths;
}

/** Of the answer of a row, or of the two of a pair; empty where nothing of it is left to learn. */
function lengthsOf(open: OpenModel, row: StepRow): number[] {
  const longest = open.config.max_position_embeddings;
  if ('chosen' in row) {
    const [pair] = preferenceRows({ rows: () => [{ ...row }] }, open);
    const cut = cutPair(pair!, longest);
    return cut === null ? [] : [cut.chosen, cut.rejected].map((one) => cut.promptIds.length + one.tokenIds.length);
  }
  const cut = cutRow(supervisedRow(row, open), longest);
  return cut === null ? [] : [cut.promptIds.length + cut.tokenIds.length];
}

/** Tokens a second of the last training by this method that reported them. */
async function lastSpeed(db: Db, method: string): Promise<number | null> {
  const last = await firstOf(
    db,
    query
      .selectFrom('facts.job_metrics as m')
      .innerJoin('facts.jobs as j', 'j.job_id', 'm.job_id')
      .select('m.value')
      .where('j.kind', '=', method)
      .where('m.name', '=', 'tokens_per_second')
      .orderBy('m.occurred_at', (order) => order.desc().nullsLast())
      .limit(1),
  );
  return last?.value ?? null;
}

/** Whether the methods that the plan runs choose the rows of the recipe: then those of now say little. */
export function isJudgedBy({ judge = [] }: Plan, written: Readonly<Record<string, unknown>>): boolean {
  const { where, reward, credit, verdicts } = parseRecipe({ name: 'rows', ...written });
  const reads = [reward, credit, ...verdicts].some((one) => one !== null);
  return judge.length > 0 && (reads || (where !== null && looksAtJudgement(where)));
}

export function emptied(name: string, { manifest }: OpenedDataset): string {
  return `The recipe of ${name} has no rows to train on: ${whyEmpty(manifest.funnel)}. Change policies.${name}.recipe, or record what it takes.`;
}

/** Methods that a recipe reads and the plan does not run: nobody has judged episodes that are yet to be played. One that is none is a problem. */
export async function noteUnjudged(
  db: Db,
  { policies, judge = [] }: Plan,
  { problems, notes }: Findings,
): Promise<void> {
  const run = new Set<string>(judge.map(({ method }) => method));
  const judged = new Set((await judgedMethods(db)).flatMap(({ method, method_key }) => [method, method_key]));
  const known = new Set<string>([...METHOD_NAMES, ...judged]);
  for (const [name, policy] of Object.entries(policies)) {
    const at = `policies.${name}.recipe`;
    for (const method of methodsOf(parseRecipe({ ...withoutGates(policy.recipe), name }))) {
      if (!known.has(method) && !isMethod(method))
        problems.push(
          `${at} reads ${method}, and there is no such method.${meantBy(method, [...known]) || ' `troupe method list` lists them.'}`,
        );
      else if (!run.has(method))
        notes.push(
          `${at} reads ${method}, and no entry of judge runs it: a round fails at freeze-${name}, unless \`troupe run judge\` runs it by the setting judge.`,
        );
    }
  }
}

/** The names of the methods that a recipe reads, its filter included; each once. Pure. */
const methodsOf = ({ reward, credit, verdicts, where }: Recipe): ReadonlySet<string> =>
  new Set(
    [
      ...[reward, credit, ...verdicts].map((choice) => choice?.method),
      ...comparisonsOf(where).map(({ field }) => factsOf(field).method),
    ].filter((method) => typeof method === 'string'),
  );
