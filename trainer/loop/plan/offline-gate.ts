/**
 * The offline gate: how likely held-out answers are under the candidate, beside the incumbent, paired by task. Nothing is sampled, so it
 * needs no team; it is for policies that learn from answers which are good.
 */
import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { hashId } from '../../../ingest/events/json.ts';
import { type OpenedDataset, openDataset } from '../../../store/datasets/read.ts';
import type { Db } from '../../../store/db/pool.ts';
import { type Both, meanOf } from '../../../store/evaluate/statistics/paired.ts';
import { decide, deviationOf, type GateRules, type MeasuredTask } from '../../../store/loop/comparison/gate.ts';
import { overBudget } from '../../../store/loop/play/budget.ts';
import { requestedOf } from '../../../store/loop/play/request.ts';
import { checkedSpec, type Handler, type JobContext } from '../../../store/queue/jobs/jobs.ts';
import { cutRow, type StepRow, supervisedRow, type TokenRow } from '../../learn/data/training-rows.ts';
import { closeTrainable, evaluate, trainable } from '../../learn/step.ts';
import { sftLoss } from '../../model/losses/sft.ts';
import { type OpenModel, openModelForIds } from '../../model/model-directory.ts';
import { RulesSpec } from '../comparison/play.ts';
import { cutShort, type GateReport } from '../comparison/report.ts';
import { recordedFamilies, taskOf } from './weights.ts';

const Weights = Type.Object({ checkpoint_id: Type.String(), directory: Type.String() });
const OfflineGateSpec = Type.Object({
  kind: Type.Literal('offline'),
  rules: RulesSpec,
  /** Seconds from its request after which it is cut short. */
  budget: Type.Optional(Type.Object({ seconds: Type.Number() })),
  /** Dataset whose rows are compared; null: the held-out split of each policy's own. */
  dataset: Type.Union([Type.String(), Type.Null()]),
  policies: Type.Record(
    Type.String(),
    Type.Object({
      incumbent: Weights,
      candidate: Weights,
      dataset: Type.String(),
      roles: Type.Union([Type.Array(Type.String()), Type.Null()]),
    }),
  ),
});
type Weights = { readonly checkpoint_id: string; readonly directory: string };

/** The scorer by name and version: what is compared changes with it. */
const SCORER = 'mean_token_logprob@1';
const UNSEEN_ROLE = 'no role';
const TRAINED_ON = 'whose task was trained on';
const NOTHING_TO_SCORE = 'with nothing to score within the context';
const CUT_SHORT = 'not scored before the budget was used up';
/** Scoring calls no model. */
const NOTHING_SPENT = { tokens: null, uncounted: 0, usd: null, unpriced: 0 };
/** Rows scored at once. */
const AT_ONCE = 32;

type ScoredPair = Both & { readonly task: string; readonly role: string };

/** @returns handler of kind `gate`, whose result is a `GateReport` */
export function offlineGate({ db }: JobContext, settings: { readonly threads: number; readonly codeVersion: string }) {
  const handler: Handler = async ({ job_id, spec }) => {
    const { rules, budget, dataset, policies } = checkedSpec(OfflineGateSpec, spec);
    let over: string | null = null;
    const isOver = async (): Promise<boolean> => {
      if (budget !== undefined && over === null)
        over = overBudget({ budget }, NOTHING_SPENT, (await requestedOf(db, job_id)).age)?.message ?? null;
      return over !== null;
    };
    const leftOut: Record<string, number> = { [TRAINED_ON]: 0, [NOTHING_TO_SCORE]: 0 };
    const scored: ScoredPair[] = [];
    const content: string[] = [];
    const models: Record<string, { incumbent: string; candidate: string }> = {};
    for (const [name, policy] of Object.entries(policies)) {
      const own = await openDataset(policy.dataset);
      const shown = dataset === null ? own : await openDataset(dataset);
      content.push(shown.manifest.content_sha256);
      const trained = new Set(stepsOf(own, 'train').map(taskOf));
      const found = stepsOf(shown, dataset === null ? 'held_out' : 'train').filter(
        ({ role }) => policy.roles === null || policy.roles.includes(role ?? ''),
      );
      const fresh = found.filter((row) => !trained.has(taskOf(row)));
      leftOut[TRAINED_ON]! += found.length - fresh.length;
      const incumbent = await scores(policy.incumbent, fresh, settings.threads, isOver);
      const candidate = await scores(policy.candidate, fresh, settings.threads, isOver);
      models[name] = { incumbent: incumbent.id, candidate: candidate.id };
      for (const [i, row] of fresh.entries()) {
        const [before, after] = [incumbent.means[i]!, candidate.means[i]!];
        if (over !== null) leftOut[CUT_SHORT] = (leftOut[CUT_SHORT] ?? 0) + 1;
        else if (before === null || after === null) leftOut[NOTHING_TO_SCORE]!++;
        else scored.push({ task: taskOf(row), role: row.role ?? UNSEEN_ROLE, incumbent: before, candidate: after });
      }
    }
    const guarded = Object.values(policies).flatMap(({ roles }) => roles ?? []);
    const tasks = await measured(db, scored);
    const decision = decide(tasks, rules as GateRules, guarded);
    const report: GateReport = {
      format: 'troupe-gate/1',
      kind: 'offline',
      measure: 'mean log-probability of a token of held-out answers',
      unit: 'nats',
      ...(over === null ? decision : cutShort(decision, over)),
      rules: rules as GateRules,
      deviation: deviationOf(tasks),
      models,
      pinned: {
        task_set: hashId(
          content,
          tasks.map(({ task_id }) => task_id),
        ),
        scorer: SCORER,
        models: hashId(models),
        environment: hashId({ troupe: settings.codeVersion, threads: settings.threads }),
      },
      left_out: leftOut,
    };
    return report;
  };
  return handler;
}

const stepsOf = (dataset: OpenedDataset, split: string): StepRow[] => [...dataset.rows(split)] as unknown as StepRow[];

/** @param isOver asked before each batch: the rows that are left then have no mean */
async function scores(
  weights: Weights,
  rows: readonly StepRow[],
  threads: number,
  isOver: () => Promise<boolean>,
): Promise<{
  /** Of the weights. */
  readonly id: string;
  /** Mean log-probability of the tokens of each row, in nats; null for a row of which nothing is left within the context. */
  readonly means: readonly (number | null)[];
}> {
  const open = await openModelForIds(weights.directory);
  const model = trainable(open.config, open.weights, { threads });
  const fitted = rows.map((row) => withinContext(row, open));
  const found: (number | null)[] = rows.map(() => null);
  const places = fitted.flatMap((row, at) => (row === null ? [] : [at]));
  try {
    for (let from = 0; from < places.length; from += AT_ONCE) {
      if (await isOver()) break;
      const part = places.slice(from, from + AT_ONCE);
      const asked = part.map((at) => {
        const { promptIds, tokenIds, trained } = fitted[at]!;
        return { promptIds, completions: [{ tokenIds, weights: trained.map(Number) }] };
      });
      const { logprobs } = await evaluate(model, asked, sftLoss);
      for (const [i, at] of part.entries()) found[at] = meanOf((logprobs[i]?.[0] ?? []).filter((one) => one !== null));
    }
  } finally {
    await closeTrainable(model);
  }
  return { id: open.id, means: found };
}

function withinContext(row: StepRow, open: OpenModel): TokenRow | null {
  const whole = supervisedRow(row, open);
  return whole.trained.includes(true) ? cutRow(whole, open.config.max_position_embeddings) : null;
}

/** By task: the mean over its rows, and over those of each role. */
async function measured(db: Db, scored: readonly ScoredPair[]): Promise<MeasuredTask[]> {
  const byTask = groupBy(scored, ({ task }) => task);
  const families = await recordedFamilies(db, [...byTask.keys()]);
  return [...byTask]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([task_id, of]) => ({
      task_id,
      family: families.get(task_id) ?? null,
      ...both(of),
      roles: Object.fromEntries([...groupBy(of, ({ role }) => role)].map(([role, mine]) => [role, both(mine)])),
      tokens: null,
      latency: null,
    }));
}

const both = (of: readonly Both[]): Both => ({
  incumbent: meanOf(of.map(({ incumbent }) => incumbent))!,
  candidate: meanOf(of.map(({ candidate }) => candidate))!,
});
