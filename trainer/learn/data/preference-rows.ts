/**
 * Pairs of answers to one prompt: from JSON lines, from a dataset whose rows are pairs, or from one of steps, where the best and the worst
 * answer to one prompt are a pair.
 */
import { TroupeError } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import { bestAndWorst } from '../../../store/datasets/layouts/pairs.ts';
import { worth } from '../../../store/datasets/layouts/turn.ts';
import type { OpenModel } from '../../model/model-directory.ts';
import type { PreferenceRow } from '../preference.ts';
import { type RowModel, record, refuse, replyRow, toolsOf, weightIn } from './training-files.ts';
import {
  askedMessages,
  offeredTools,
  type RewardedStep,
  type StepRow,
  sentMessage,
  supervisedRow,
  type TokenRow,
  weighed,
} from './training-rows.ts';

/**
 * One pair: `{"prompt","chosen","rejected"}` as text or messages, or as OpenAI writes it, `{"input":{"messages"},"preferred_output",
 * "non_preferred_output"}`; `tools` beside it are those that were offered, and `weight` multiplies its loss.
 * @throws TroupeError `input_refused` naming the field.
 */
export function preferenceLine(value: unknown, model: RowModel): PreferenceRow {
  const line = record(value);
  const openai = isRecord(line.input) ? line.input.messages : undefined;
  const [prompt, chosen, rejected] =
    openai === undefined
      ? (['prompt', 'chosen', 'rejected'] as const)
      : (['input', 'preferred_output', 'non_preferred_output'] as const);
  for (const field of [prompt, chosen, rejected]) {
    if (line[field] === undefined) refuse(field, `there, beside ${prompt}, ${chosen} and ${rejected}`, undefined);
  }
  const asked = openai ?? line.prompt;
  const tools = toolsOf(isRecord(line.input) ? line.input : line);
  return {
    ...pairOf(
      replyRow(asked, afterPrompt(asked, line[chosen]), chosen, model, tools),
      replyRow(asked, afterPrompt(asked, line[rejected]), rejected, model, tools),
    ),
    ...weightIn(line),
  };
}

/** Files that repeat the prompt in both answers are common; what follows it is the answer. */
function afterPrompt(prompt: unknown, answer: unknown): unknown {
  if (!Array.isArray(prompt) || !Array.isArray(answer) || answer.length <= prompt.length) return answer;
  const repeats = prompt.every((message, i) => JSON.stringify(message) === JSON.stringify(answer[i]));
  return repeats ? answer.slice(prompt.length) : answer;
}

function pairOf(chosen: TokenRow, rejected: TokenRow): PreferenceRow {
  if (chosen.tokenIds.join() === rejected.tokenIds.join()) refuse('rejected', 'another answer than chosen', 'the same');
  return { promptIds: chosen.promptIds, chosen, rejected };
}

/** The pairs of a dataset's split. @throws TroupeError `training_failed` where it has none. */
export function preferenceRows(
  dataset: { readonly rows: (split: string) => Iterable<Readonly<Record<string, unknown>>> },
  model: OpenModel,
  split = 'train',
): PreferenceRow[] {
  const rows = [...dataset.rows(split)];
  const pairs = rows.some((row) => 'chosen' in row)
    ? rows.map((row) => frozenPair(row, model))
    : candidatePairs(rows as unknown as RewardedStep[], model);
  if (pairs.length > 0) return pairs;
  throw new TroupeError(
    'training_failed',
    'The dataset has no pair of answers: no rows with chosen and rejected, and no prompt whose answers differ in reward or advantage.',
  );
}

/** A row of a dataset of pairs: the tokens as they were sampled where both answers have them, else the messages. */
function frozenPair(row: Readonly<Record<string, unknown>>, model: OpenModel): PreferenceRow {
  const answer = (name: string) => sampled(row.prompt_token_ids, row[`${name}_token_ids`], row[`${name}_loss_mask`]);
  const [chosen, rejected] = [answer('chosen'), answer('rejected')];
  const weight = weighed(row.weight as number | null | undefined);
  if (chosen && rejected) return { ...pairOf(chosen, rejected), ...weight };
  const given = row as Pick<StepRow, 'prompt' | 'system' | 'tools'>;
  const asked = textOrMessages(row.prompt);
  const prompt = Array.isArray(asked) ? askedMessages(given) : asked;
  const reply = (name: string): TokenRow => {
    const said = textOrMessages(row[name]);
    const answer = Array.isArray(said) ? said.map(sentMessage) : said;
    return replyRow(prompt, answer, name, model, { ...offeredTools(given), cut: row[`${name}_cut`] === true });
  };
  return { ...pairOf(reply('chosen'), reply('rejected')), ...weight };
}

function sampled(prompt: unknown, answer: unknown, mask: unknown): TokenRow | null {
  if (!prompt || !answer) return null;
  const tokenIds = Array.from(answer as ArrayLike<number>);
  const trained = mask ? Array.from(mask as ArrayLike<number>, (on) => on === 1) : tokenIds.map(() => true);
  return { promptIds: Array.from(prompt as ArrayLike<number>), tokenIds, trained };
}

/** Older datasets hold messages as JSON text. */
function textOrMessages(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*\[/.test(value)) return value;
  try {
    const parsed: unknown = JSON.parse(value);
    return Array.isArray(parsed) && parsed.every(isRecord) ? parsed : value;
  } catch {
    return value;
  }
}

/**
 * One pair for each prompt of a group: the first best and the first worst of the answers to it, candidates of one call or of several, by
 * advantage, or by reward where that is unknown.
 */
export function candidatePairs(rows: readonly RewardedStep[], model: OpenModel): PreferenceRow[] {
  const promptOf = (row: RewardedStep): string => {
    const asked = row.prompt_token_ids ? Array.from(row.prompt_token_ids).join() : row.prompt;
    return JSON.stringify([row.group_id ?? row.task_id ?? row.episode_id, row.role, asked]);
  };
  return bestAndWorst(rows, promptOf, worth).flatMap(({ best, worst }) => {
    const [chosen, rejected] = [supervisedRow(best, model), supervisedRow(worst, model)];
    if (chosen.tokenIds.join() === rejected.tokenIds.join()) return [];
    return [{ promptIds: chosen.promptIds, chosen, rejected, ...weighed(best.weight) }];
  });
}

/** A pair whose answers are cut to a length; null where one of them has nothing left. */
export function cutPair({ promptIds, chosen, rejected, weight }: PreferenceRow, longest: number): PreferenceRow | null {
  const room = Math.max(0, longest - promptIds.length);
  const short = ({ tokenIds, trained }: PreferenceRow['chosen']) => ({
    tokenIds: tokenIds.slice(0, room),
    trained: trained.slice(0, room),
  });
  const [first, second] = [short(chosen), short(rejected)];
  const left = first.trained.includes(true) && second.trained.includes(true);
  return left ? { promptIds, chosen: first, rejected: second, ...weighed(weight) } : null;
}
