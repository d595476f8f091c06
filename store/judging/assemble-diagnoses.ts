/**
 * Episodes whose task is to find out what went wrong in another run. The diagnosis is what the episode said last; the task's ground truth says
 * what is right. The marks are a score of the episode.
 */
import { TroupeError } from '../../errors.ts';
import { groupBy } from '../methods/statistics.ts';
import { attempt } from './answers.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import type { EpisodeFacts } from './facts.ts';
import { score } from './judgement.ts';
import { onwardOf } from './over-episodes.ts';

function lastText({ steps, contentOf }: Assembled): (episode: EpisodeFacts) => string | null {
  const own = groupBy(steps, (step) => step.episode_id);
  return ({ episode_id }) => {
    const last = onwardOf(own.get(episode_id) ?? []).at(-1);
    return last === undefined ? null : contentOf(last).text;
  };
}

const TRACED = /^\s*<think>[\s\S]*<\/think>\s*<answer>\s*([^|<>]+?)\s*\|\s*(\d+)\s*<\/answer>\s*$/;

/** The ground truth is an object with `agent` and `step`; the last message is `<think>…</think><answer>agent|step</answer>`. */
const byTrace: Assemble = (method, params, facts) => {
  const textOf = lastText(facts);
  return facts.episodes.map((episode) => {
    const key = `e/${episode.episode_id}`;
    const { agent, step } = (episode.ground_truth ?? {}) as { agent?: unknown; step?: unknown };
    const true_step = typeof step === 'string' && /^\d+$/.test(step) ? Number(step) : step;
    if (typeof agent !== 'string' || !Number.isSafeInteger(true_step)) return score(key, null, 'no_truth');
    const text = textOf(episode);
    if (text === null) return score(key, null, 'no_diagnosis');
    const [, pred_agent = null, said = null] = TRACED.exec(text) ?? [];
    const pred_step = said === null ? null : Number(said);
    const named = { format_ok: pred_agent !== null, pred_agent, pred_step };
    const output = attempt(method, { ...named, true_agent: agent, true_step, ...params });
    if (output instanceof TroupeError) return score(key, null, output.message);
    return score(key, output as number, named.format_ok ? null : 'bad_format', named);
  });
};

type Pair = readonly [agent: string, mode: string];

/** A list of `[agent, mode]` or of objects with `agent` and `mode`; null for anything else. */
function pairsOf(value: unknown): Pair[] | null {
  if (!Array.isArray(value)) return null;
  const pairs = value.map((one: unknown) => {
    const [agent, mode] = Array.isArray(one) ? one : [(one as Json)?.agent, (one as Json)?.mode];
    return typeof agent === 'string' && typeof mode === 'string' ? ([agent, mode] as const) : null;
  });
  return pairs.every((pair) => pair !== null) ? pairs : null;
}

type Json = { readonly agent?: unknown; readonly mode?: unknown } | null;

/** Both are lists of pairs as JSON: the ground truth, and the answer, or the last message where the episode names no answer. */
const byModes: Assemble = (method, params, facts) => {
  const textOf = lastText(facts);
  return facts.episodes.map((episode) => {
    const key = `e/${episode.episode_id}`;
    const gold = pairsOf(episode.ground_truth);
    if (gold === null) return score(key, null, 'no_truth');
    const text = episode.answer ?? textOf(episode);
    if (text === null) return score(key, null, 'no_diagnosis');
    const pred = pairsOf(parsed(text));
    const output = attempt(method, { malformed: pred === null, gold, pred: pred ?? [], ...params });
    if (output instanceof TroupeError) return score(key, null, output.message);
    return score(key, output as number, pred === null ? 'bad_format' : null, { predicted: pred });
  });
};

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const about = { reads: ['content'], writes: ['scores'] } as const;
export const DIAGNOSIS_ASSEMBLERS: Assemblers = {
  'traced failure': { blame: { over: byTrace, ...about } },
  'diagnosed modes': { blame: { over: byModes, ...about } },
};
