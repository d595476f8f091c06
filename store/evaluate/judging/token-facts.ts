/**
 * Results of a model's forward pass on recorded tokens: their values or log-probabilities, read back from the feedback that
 * recorded them. Of several passes of one kind over an episode the last by (time, id) counts, and with it its checkpoint: numbers
 * of two models are never mixed.
 */
import type { Session } from '../../db/pool.ts';
import { anyOf, facts, type NotNull, prepare, rowsOfPrepared, sql } from '../../db/query.ts';
import { stepKey } from './facts.ts';

/** Names of the feedback that carries one number for each token of a step. Its label is the kind of pass, its annotator the checkpoint. */
export const TOKEN_VALUES = 'token_values';
export const TOKEN_LOGPROBS = 'token_logprobs';

export type RecordedPass = {
  readonly step_id: string;
  /** `values`, `reference`, `masked` or `alone`. */
  readonly pass: string;
  readonly checkpoint: string;
  /** The step that was taken out of the prompt; null for none. */
  readonly without: string | null;
  /** One for each token of the step. */
  readonly numbers: readonly number[];
};

type StepTokens = {
  /** The conversation went on from it: the only candidate of its call, or the chosen one. */
  readonly onward: boolean;
  /** 1 for each token that the model chose; null for a step without token ids. */
  readonly mask: readonly (0 | 1)[] | null;
};

export type TokenFacts = {
  /** By episode, the oldest first. */
  readonly passes: ReadonlyMap<string, readonly RecordedPass[]>;
  /** By `stepKey`. */
  readonly tokens: ReadonlyMap<string, StepTokens>;
};

const PASSES = prepare<{ keys: readonly string[] }>('judge_passes')((value) =>
  facts
    .selectFrom('feedback as f')
    .select(['f.target_id as step_id', 'f.label as pass', 'f.annotator as checkpoint', 'f.other_id as without'])
    .select(['f.episode_id', sql<readonly number[]>`f.value_json`.as('numbers')])
    .where('f.key', '=', anyOf(value('keys')))
    .where('f.target_kind', '=', 'step')
    .where('f.kind', '=', 'score')
    .where('f.name', 'in', [TOKEN_VALUES, TOKEN_LOGPROBS])
    .where('f.episode_id', 'is not', null)
    .where('f.target_id', 'is not', null)
    .where('f.label', 'is not', null)
    .where('f.annotator', 'is not', null)
    .where(sql`json_typeof(f.value_json)`, '=', 'array')
    .orderBy('f.key')
    .orderBy('f.version')
    .$narrowType<{ episode_id: NotNull; step_id: NotNull; pass: NotNull; checkpoint: NotNull }>(),
);

const STEPS = prepare<{ episodes: readonly string[] }>('judge_tokens')((value) =>
  facts
    .selectFrom('steps as s')
    .select(['s.episode_id', sql<string>`s.call_id || '/' || s.candidate`.as('step_id'), 's.loss_mask'])
    .select([
      sql<number | null>`cardinality(s.token_ids)`.as('tokens'),
      sql<boolean>`coalesce(s.chosen, count(*) over (partition by s.episode_id, s.call_id) = 1)`.as('onward'),
    ])
    .where('s.episode_id', '=', anyOf(value('episodes'))),
);

export async function tokenFacts(tx: Session, episodes: readonly string[]): Promise<TokenFacts> {
  const recorded = await rowsOfPrepared(tx, PASSES, { keys: episodes.map((id) => `e/${id}`) });
  const passes = new Map<string, RecordedPass[]>();
  for (const { episode_id, ...pass } of recorded) {
    if (!pass.numbers.every((number) => typeof number === 'number')) continue;
    const known = passes.get(episode_id);
    if (known) known.push(pass);
    else passes.set(episode_id, [pass]);
  }
  const steps = await rowsOfPrepared(tx, STEPS, { episodes });
  const maskOf = (length: number, mask: readonly number[] | null) =>
    Array.from({ length }, (_, t): 0 | 1 => (mask === null || mask[t] === 1 ? 1 : 0));
  const tokens = steps.map(({ episode_id, step_id, tokens: length, onward, loss_mask }): [string, StepTokens] => [
    stepKey(episode_id, step_id),
    { onward, mask: length === null ? null : maskOf(length, loss_mask) },
  ]);
  return { passes, tokens: new Map(tokens) };
}
