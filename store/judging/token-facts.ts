/**
 * What a model's forward pass said about recorded tokens: their values or log-probabilities, read back from the feedback that
 * recorded them. Of several passes of one kind over an episode the last by (time, id) counts, and with it its checkpoint: numbers
 * of two models are never mixed.
 */
import type { Session } from '../db/pool.ts';
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

export type StepTokens = {
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

export const NO_TOKEN_FACTS: TokenFacts = { passes: new Map(), tokens: new Map() };

export async function tokenFacts(tx: Session, episodes: readonly string[]): Promise<TokenFacts> {
  const { rows: recorded } = await tx.query<RecordedPass & { readonly episode_id: string }>(
    `select f.episode_id, f.target_id as step_id, f.label as pass, f.annotator as checkpoint, f.other_id as without, f.value_json as numbers
     from feedback f
     where f.key = any($1::text[]) and f.target_kind = 'step' and f.kind = 'score' and f.name = any($2::text[])
       and f.target_id is not null and f.label is not null and f.annotator is not null and json_typeof(f.value_json) = 'array'
     order by f.key, f.version`,
    [episodes.map((id) => `e/${id}`), [TOKEN_VALUES, TOKEN_LOGPROBS]],
    { name: 'judge_passes' },
  );
  const passes = new Map<string, RecordedPass[]>();
  for (const { episode_id, ...pass } of recorded) {
    if (!pass.numbers.every((number) => typeof number === 'number')) continue;
    const known = passes.get(episode_id);
    if (known) known.push(pass);
    else passes.set(episode_id, [pass]);
  }
  const { rows: steps } = await tx.query<{
    episode_id: string;
    step_id: string;
    tokens: number | null;
    onward: boolean;
    loss_mask: (0 | 1)[] | null;
  }>(
    `select s.episode_id, s.call_id || '/' || s.candidate as step_id, cardinality(s.token_ids) as tokens, s.loss_mask,
            coalesce(s.chosen, count(*) over (partition by s.episode_id, s.call_id) = 1) as onward
     from steps s where s.episode_id = any($1::text[])`,
    [episodes],
    { name: 'judge_tokens' },
  );
  const maskOf = (length: number, mask: readonly (0 | 1)[] | null) =>
    Array.from({ length }, (_, t): 0 | 1 => (mask === null || mask[t] === 1 ? 1 : 0));
  const tokens = steps.map(({ episode_id, step_id, tokens: length, onward, loss_mask }): [string, StepTokens] => [
    stepKey(episode_id, step_id),
    { onward, mask: length === null ? null : maskOf(length, loss_mask) },
  ]);
  return { passes, tokens: new Map(tokens) };
}
