/**
 * Forward passes over what was recorded: the log-probabilities or values of sampled tokens, computed by a current model and
 * appended to the log as feedback about their steps, so that credit computed from them can be computed again. Tokens are taken as
 * they are; a step without them is refused, never tokenised anew.
 */
import { TroupeError } from '../../errors.ts';
import type { Draft } from '../../ingest/events/events.ts';
import { hashId } from '../../ingest/events/json.ts';
import type { EventLog } from '../../ingest/log/log.ts';
import { appendOwn } from '../../ingest/log/own-event.ts';
import type { Db } from '../../store/db/pool.ts';
import { anyOf, query, rowsOf, sql } from '../../store/db/query.ts';
import { TOKEN_LOGPROBS, TOKEN_VALUES } from '../../store/evaluate/judging/token-facts.ts';
import { loadMethod } from '../../store/evaluate/methods/catalogue.ts';
import { VALUED, type ValueTarget, valuedTokens } from '../learn/data/value-rows.ts';
import type { ModelConfig } from '../model/weights.ts';
import type { Policy } from './policy.ts';

/** A candidate with its tokens; steps of an episode stand in the order they were asked for. */
export type TokenStep = {
  readonly episode_id: string;
  readonly step_id: string;
  readonly call_id: string;
  readonly prompt_token_ids: readonly number[] | null;
  readonly token_ids: readonly number[] | null;
  /** The conversation went on from it. */
  readonly onward: boolean;
};

/** One sequence of a pass: tokens of a step after a prompt. */
export type PassRow = {
  readonly episodeId: string;
  readonly stepId: string;
  /** The step that was taken out of the prompt; null for none. */
  readonly without: string | null;
  readonly promptIds: readonly number[];
  readonly tokenIds: readonly number[];
};

export type RefusedStep = { readonly episode_id: string; readonly step_id: string; readonly reason: string };
export type PassRows = { readonly rows: readonly PassRow[]; readonly refused: readonly RefusedStep[] };

/** The two models of a pass `ifd`. */
export const PASS_AS = ['small', 'large'] as const;
export type PassAs = (typeof PASS_AS)[number];

/** A kind of pass: which sequences it makes of the steps of an episode, and what is asked of the model. */
export type Pass = {
  readonly name: 'reference' | 'masked' | 'alone' | 'ifd' | 'values' | `value-of-${ValueTarget}`;
  readonly of: 'logprobs' | 'values';
  /** Which of two models it is by, for a pass whose models methods distinguish by this alone. It is part of the recorded name. */
  readonly as?: PassAs;
  readonly rows: (steps: readonly TokenStep[]) => PassRows;
};

/** Of each step the tokens after its own prompt: log p(tokens | prompt). */
export const referencePass: Pass = { name: 'reference', of: 'logprobs', rows: (steps) => eachStep(steps, plainRow) };

/** Of each step the tokens after the first token of its prompt, which begins the text: log p(tokens). */
export const alonePass: Pass = {
  name: 'alone',
  of: 'logprobs',
  rows: (steps) =>
    eachStep(steps, (step) => {
      const row = plainRow(step);
      return typeof row === 'string' ? row : { ...row, promptIds: row.promptIds.slice(0, 1) };
    }),
};

/**
 * Of each episode how little the prompt of its last answer helps a model to predict it: the perplexity of the answer given its prompt over
 * that of the answer alone (Star-Agents, arXiv 2411.14497). All tokens of the answer count.
 */
export const ifdPass = (as: PassAs): Pass => ({
  name: 'ifd',
  of: 'logprobs',
  as,
  rows: (steps) => {
    const last = steps.findLast(({ onward }) => onward);
    return eachStep(last === undefined ? [] : [last], plainRow);
  },
});

/** Of each token of each step the value of what came before it, by a model with a value head. */
export const valuesPass: Pass = { name: 'values', of: 'values', rows: (steps) => eachStep(steps, plainRow) };

/** Of each step one number: the value of its prompt, as a critic has it, or of its answer, as a process reward model has it. */
export const valuePass = (of: ValueTarget): Pass => ({
  name: `value-of-${of}`,
  of: 'values',
  rows: (steps) =>
    eachStep(steps, (step) => {
      const row = plainRow(step);
      return typeof row === 'string' ? row : { ...row, ...valuedTokens(row, of) };
    }),
});

/**
 * For each step the tokens of the next step that has it as input, with the step taken out of that prompt. With the reference pass of the
 * next step this measures how much the step changed it (Dr. MAMR, arXiv 2511.02303). The step's tokens are found in the later prompt as
 * they were sampled, the last token, which may be an end of turn that the template writes itself, excepted; they are left out, so that
 * what follows moves up. Steps that no later prompt holds are refused.
 */
export const maskedPass: Pass = {
  name: 'masked',
  of: 'logprobs',
  rows: (steps) =>
    eachStep(steps, (step, at) => {
      if (step.token_ids === null) return 'no_token_ids';
      if (step.token_ids.length === 0) return 'no_tokens';
      const later = steps.slice(at + 1).filter((other) => other.onward && other.call_id !== step.call_id);
      // Nothing has it as input: there is no pass for the last step.
      if (later.length === 0) return null;
      for (const next of later) {
        const row = plainRow(next);
        if (typeof row === 'string') continue;
        const promptIds = withoutRun(row.promptIds, step.token_ids);
        if (promptIds !== null) return { ...row, without: step.step_id, promptIds };
      }
      return 'not_in_a_later_prompt';
    }),
};

export const LOGPROB_PASSES: readonly Pass[] = [referencePass, maskedPass, alonePass];
const VALUE_PASSES: readonly Pass[] = [valuesPass, ...VALUED.map(valuePass)];
const PASSES: readonly Pass[] = [...LOGPROB_PASSES, ifdPass('small'), ...VALUE_PASSES];
export const PASS_NAMES = PASSES.map(({ name }) => name);

/** The pass of a name; `as` belongs to `ifd`. */
export const passNamed = (name: Pass['name'], as?: PassAs): Pass =>
  as === undefined ? PASSES.find((one) => one.name === name)! : ifdPass(as);

const plainRow = ({ episode_id, step_id, prompt_token_ids, token_ids }: TokenStep): PassRow | string => {
  if (token_ids === null) return 'no_token_ids';
  if (token_ids.length === 0) return 'no_tokens';
  if (prompt_token_ids === null || prompt_token_ids.length === 0) return 'no_prompt_token_ids';
  return { episodeId: episode_id, stepId: step_id, without: null, promptIds: prompt_token_ids, tokenIds: token_ids };
};

function eachStep(
  steps: readonly TokenStep[],
  rowOf: (step: TokenStep, at: number) => PassRow | string | null,
): PassRows {
  const rows: PassRow[] = [];
  const refused: RefusedStep[] = [];
  for (const [at, step] of steps.entries()) {
    const row = rowOf(step, at);
    if (typeof row === 'string') refused.push({ episode_id: step.episode_id, step_id: step.step_id, reason: row });
    else if (row !== null) rows.push(row);
  }
  return { rows, refused };
}

/** The prompt without the last run of these tokens in it, the run's own last token excepted; null where there is none or nothing is left. */
function withoutRun(prompt: readonly number[], run: readonly number[]): readonly number[] | null {
  for (const length of run.length > 1 ? [run.length, run.length - 1] : [1]) {
    for (let at = prompt.length - length; at >= 0; at--) {
      let same = 0;
      while (same < length && prompt[at + same] === run[same]) same++;
      if (same < length) continue;
      const rest = [...prompt.slice(0, at), ...prompt.slice(at + length)];
      return rest.length === 0 ? null : rest;
    }
  }
  return null;
}

/** Rows that this model can read, and the others with the reason. */
export function readable(rows: readonly PassRow[], config: ModelConfig): PassRows {
  const reason = ({ promptIds, tokenIds }: PassRow): string | null => {
    if (promptIds.length + tokenIds.length > config.max_position_embeddings) return 'too_long';
    const foreign = (id: number) => id >= config.vocab_size;
    return promptIds.some(foreign) || tokenIds.some(foreign) ? 'other_vocabulary' : null;
  };
  const refused = rows.flatMap((row): RefusedStep[] => {
    const why = reason(row);
    return why === null ? [] : [{ episode_id: row.episodeId, step_id: row.without ?? row.stepId, reason: why }];
  });
  return { rows: refused.length === 0 ? rows : rows.filter((row) => reason(row) === null), refused };
}

/** Steps of these episodes, an episode after the other. */
export const tokenSteps = (db: Pick<Db, 'query'>, episodes: readonly string[]): Promise<TokenStep[]> =>
  rowsOf(
    db,
    query
      .selectFrom('facts.steps as s')
      .innerJoin('facts.calls as c', (on) =>
        on.onRef('c.episode_id', '=', 's.episode_id').onRef('c.call_id', '=', 's.call_id'),
      )
      .select(['s.episode_id', 's.call_id', 'c.prompt_token_ids', 's.token_ids'])
      .select([
        sql<string>`s.call_id || '/' || s.candidate`.as('step_id'),
        sql<boolean>`coalesce(s.chosen, count(*) over (partition by s.episode_id, s.call_id) = 1)`.as('onward'),
      ])
      .where('s.episode_id', '=', anyOf(episodes))
      .orderBy('s.episode_id')
      .orderBy(sql`coalesce(c.requested_seq, c.completed_seq)`)
      .orderBy(sql`coalesce(c.requested_at, c.completed_at)`)
      .orderBy('s.call_id')
      .orderBy('s.candidate'),
  );

/** The origin of a pass: the checkpoint, and when. */
export type PassOrigin = { readonly checkpoint: string; readonly time: string };

export const SOURCE = '/passes';

/** The same model over the same tokens is the same event, whenever it is asked. */
export const passId = (pass: Pass, row: PassRow, checkpoint: string): string =>
  hashId(
    ...(pass.as === undefined ? [pass.name] : [pass.name, pass.as]),
    ...[checkpoint, row.episodeId, row.stepId, row.without, row.promptIds, row.tokenIds],
  );

/** Feedback about the step whose tokens the numbers belong to, or about the episode whose last answer it is. Nine digits name a 32-bit float exactly. */
export const passDraft = (
  pass: Pass,
  row: PassRow,
  numbers: readonly number[],
  { checkpoint, time }: PassOrigin,
): Draft<'feedback.recorded'> => {
  const id = passId(pass, row, checkpoint);
  return {
    name: 'feedback.recorded',
    source: SOURCE,
    id,
    time,
    data: {
      feedback_id: id,
      target:
        pass.as === undefined
          ? {
              kind: 'step',
              id: row.stepId,
              episode_id: row.episodeId,
              ...(row.without === null ? {} : { other_id: row.without }),
            }
          : { kind: 'episode', id: row.episodeId, episode_id: row.episodeId },
      kind: 'score',
      ...recordedValue(pass, numbers),
      label: pass.name,
      by: 'model',
      annotator: checkpoint,
    },
  };
};

/** A number of a whole step or episode is one number under the name that methods read; others are a number for each token. */
function recordedValue(pass: Pass, numbers: readonly number[]) {
  const rounded = numbers.map((number) => Number(number.toPrecision(9)));
  if (pass.as !== undefined) return { name: `${pass.name}_${pass.as}`, value: rounded[0]! };
  if (pass.of === 'logprobs') return { name: TOKEN_LOGPROBS, value: rounded };
  return pass.name === 'values' ? { name: TOKEN_VALUES, value: rounded } : { name: 'value', value: rounded[0]! };
}

/** The rows of which the log has no such pass by this checkpoint. */
export async function unrecorded(
  db: Pick<Db, 'query'>,
  pass: Pass,
  rows: readonly PassRow[],
  checkpoint: string,
): Promise<PassRow[]> {
  const ids = rows.map((row) => passId(pass, row, checkpoint));
  const known = await rowsOf(
    db,
    query
      .selectFrom('troupe.events')
      .select('id')
      .where('key', '=', anyOf([...new Set(rows.map(({ episodeId }) => `e/${episodeId}`))]))
      .where('source', '=', SOURCE)
      .where('id', '=', anyOf(ids)),
  );
  const there = new Set(known.map(({ id }) => id));
  return rows.filter((_, i) => !there.has(ids[i]!));
}

/** Appends the results of a pass. If another process recorded the same meanwhile, it was first; both used the same weights. Returns how many were new. */
export async function recordPass(
  log: Pick<EventLog, 'append'>,
  pass: Pass,
  rows: readonly PassRow[],
  numbers: readonly (readonly number[])[],
  origin: PassOrigin,
): Promise<number> {
  const drafts = rows.map((row, i) => passDraft(pass, row, numbers[i]!, origin));
  return appendOwn(log, drafts);
}

/**
 * Of each row one number for each of its tokens, or one for the row.
 * @throws TroupeError `model_unsupported` for a model of another kind than the pass asks for, `checkpoint_damaged` for numbers that are none.
 */
export async function runPass(
  pass: Pass,
  rows: readonly PassRow[],
  policy: Pick<Policy, 'logprobs' | 'values'>,
): Promise<number[][]> {
  const asked = await policy[pass.of](rows);
  const numbers = pass.name === 'ifd' ? await difficulties(rows, asked, policy) : asked;
  for (const [i, row] of numbers.entries()) {
    if (row.every(Number.isFinite)) continue;
    throw new TroupeError('checkpoint_damaged', `The ${pass.of} of step ${rows[i]?.stepId} are not all finite.`);
  }
  return numbers;
}

/** Of each answer one number: that of the method `ifd`. */
async function difficulties(
  rows: readonly PassRow[],
  given: readonly (readonly number[])[],
  policy: Pick<Policy, 'logprobs'>,
): Promise<number[][]> {
  const alone = await policy.logprobs(rows.map((row) => ({ ...row, promptIds: row.promptIds.slice(0, 1) })));
  const ifd = await loadMethod('ifd');
  return rows.map((_, i) => [ifd.run({ cond_logprobs: [...given[i]!], uncond_logprobs: alone[i]! }, {})]);
}
