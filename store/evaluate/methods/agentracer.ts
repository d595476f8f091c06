/** AgenTracer (arXiv 2509.03312): the decisive error of a failed run, and the reward that teaches to name it. */

import { Type } from 'typebox';
import { blame, nobody } from '../judging/blame-rows.ts';
import { score } from '../judging/judgement.ts';
import { lastTextOf } from '../judging/messages.ts';
import { agentAt, bit, ofKind, placeOf, runsOf, succeeded } from '../judging/replays.ts';
import { method } from './method.ts';
import { Bit, Key, nullable } from './shapes.ts';

type Label = { readonly agent: string | number; readonly step: number };

/**
 * The step that decided a failure: the earliest one whose correction makes the run succeed.
 *
 * Source: AgenTracer, arXiv 2509.03312. Verified (text); the paper's printed equation has the two outcomes swapped against its own text and
 * algorithm, and failure to success is meant. Null when no correction helped, or the run succeeded. `troupe rollout --replay … --answer` replays.
 * Kept: the earliest step wins; of one step corrected twice, the first given. Dropped: writing the corrections.
 * Open: nothing known.
 */
export const decisiveError = method({
  name: 'decisive_error',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  summary: 'Agent and step of the earliest correction that turned failure into success.',
  teams: 'several agents',
  input: Type.Object({
    outcome: Bit,
    replays: Type.Array(Type.Object({ step: Type.Integer({ minimum: 0 }), agent: Key, fixed: Bit })),
  }),
  run: ({ outcome, replays }): Label | null => {
    if (outcome === 1) return null;
    const fixes = replays.filter(({ fixed }) => fixed === 1);
    const first = fixes.reduce<(typeof fixes)[number] | null>(
      (best, one) => (best === null || one.step < best.step ? one : best),
      null,
    );
    return first === null ? null : { agent: first.agent, step: first.step };
  },
  judged: {
    scope: () => 'set',
    /** A correction counts where its step, its agent and its outcome are known. A replay is not itself blamed. */
    rows: (facts, ask) =>
      runsOf(facts).map((run) => {
        const outcome = succeeded(run.episode);
        if (run.of !== null) return nobody(run.episode, 'is_a_replay');
        if (outcome === null) return nobody(run.episode, 'outcome_unknown');
        const corrected = ofKind(run, 'correct');
        const replays = corrected.flatMap((replay) => {
          const [agent, fixed] = [agentAt(replay), succeeded(replay.episode)];
          return replay.place === null || agent === null || fixed === null
            ? []
            : [{ step: replay.place.index, agent, fixed: bit(fixed) }];
        });
        if (!outcome && replays.length === 0) return nobody(run.episode, 'no_replays');
        const label = ask.run({ outcome: bit(outcome), replays });
        const detail = { replays: replays.length, left_out: corrected.length - replays.length };
        if (label === null) return nobody(run.episode, outcome ? 'succeeded' : 'no_correction_helped', detail);
        return blame(
          run.episode,
          { agent_id: String(label.agent), step_id: run.steps[label.step]!.step_id },
          { ...detail, step: label.step },
        );
      }),
  },
});

/**
 * A failure whose cause is known, because it was put there: the perturbed step of a run that succeeded before.
 *
 * Source: AgenTracer, arXiv 2509.03312. Verified (text). Null when the run had failed anyway, or survived the perturbation.
 * Kept: the injection is the label. Dropped: the perturbation, tried in random order until one fails the run. Open:
 * nothing known.
 */
export const injectedLabel = method({
  name: 'injected_label',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  summary: 'Agent and step of a perturbation that turned success into failure.',
  teams: 'several agents',
  input: Type.Object({
    base_outcome: Bit,
    injected_outcome: Bit,
    agent: Key,
    step: Type.Integer({ minimum: 0 }),
  }),
  run: ({ base_outcome, injected_outcome, agent, step }): Label | null =>
    base_outcome === 1 && injected_outcome === 0 ? { agent, step } : null,
  judged: {
    scope: () => 'set',
    /** The perturbed run is the one that fails, so the label stands with it. */
    rows: (facts, ask) => {
      const runs = runsOf(facts);
      const known = new Map(runs.map((run) => [run.episode.episode_id, run]));
      return runs.map((run) => {
        if (run.of === null || run.intervention.kind !== 'perturb') return nobody(run.episode, 'not_perturbed');
        const base = known.get(run.of);
        if (base === undefined) return nobody(run.episode, 'no_base');
        const place = placeOf(base.steps, run.intervention);
        const agent = agentAt({ intervention: run.intervention, place });
        if (place === null || agent === null) return nobody(run.episode, place === null ? 'no_such_step' : 'no_agent');
        const [before, after] = [succeeded(base.episode), succeeded(run.episode)];
        if (before === null || after === null) return nobody(run.episode, 'outcome_unknown');
        const input = { base_outcome: bit(before), injected_outcome: bit(after), agent, step: place.index };
        const label = ask.run(input);
        if (label === null) return nobody(run.episode, before ? 'survived' : 'base_failed');
        // The step of the run that was perturbed: the replay has steps of its own.
        return blame(
          run.episode,
          { agent_id: String(label.agent), step_id: null },
          { base: run.of, step: label.step, step_id: place.step.step_id },
        );
      });
    },
  },
});

/**
 * What a tracer that names the faulty agent and step earns: near misses of the step count a little, the agent counts or not.
 *
 * Source: AgenTracer, arXiv 2509.03312. Verified (text). 0 for a wrong format; a prediction that is missing is wrong.
 * Kept: the bell over steps and the exact agent, λ 0.5, σ 1. Dropped: reading `<answer>agent|step</answer>`, which says
 * `format_ok`. Open: nothing known.
 */
export const agentracerReward = method({
  name: 'agentracer_reward',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  summary: 'A bell over the distance to the true step, and whether the agent is right.',
  teams: 'several agents',
  params: { lambda: 0.5, sigma: 1 },
  limits: { lambda: Type.Number({ minimum: 0, maximum: 1 }), sigma: Type.Number({ exclusiveMinimum: 0 }) },
  input: Type.Object({
    format_ok: Type.Boolean(),
    pred_step: nullable(Type.Number()),
    true_step: Type.Number(),
    pred_agent: nullable(Key),
    true_agent: Key,
  }),
  run: ({ format_ok, pred_step, true_step, pred_agent, true_agent }, { lambda, sigma }): number => {
    if (!format_ok) return 0;
    const near = pred_step === null ? 0 : Math.exp(-((pred_step - true_step) ** 2) / (2 * sigma ** 2));
    return lambda * near + (1 - lambda) * (pred_agent === true_agent ? 1 : 0);
  },
  judged: {
    reads: ['content'],
    writes: ['scores'],
    /** The ground truth is an object with `agent` and `step`; the last message is `<think>…</think><answer>agent|step</answer>`. */
    rows: (facts, ask) => {
      const textOf = lastTextOf(facts);
      return facts.episodes.map((episode) => {
        const key = `e/${episode.episode_id}`;
        const { agent, step } = (episode.ground_truth ?? {}) as { agent?: unknown; step?: unknown };
        const true_step: unknown = typeof step === 'string' && /^\d+$/.test(step) ? Number(step) : step;
        if (typeof agent !== 'string' || !isPlace(true_step)) return score(key, null, 'no_truth');
        const text = textOf(episode);
        if (text === null) return score(key, null, 'no_diagnosis');
        const [, named_agent, place = null] = TRACED.exec(text) ?? [];
        const pred_agent = named_agent?.trim() ?? null;
        const pred_step = place === null ? null : Number(place);
        const named = { format_ok: pred_agent !== null, pred_agent, pred_step };
        const output = ask.answer({ ...named, true_agent: agent, true_step });
        if (typeof output === 'string') return score(key, null, output);
        return score(key, output, named.format_ok ? null : 'bad_format', named);
      });
    },
  },
});

const TRACED = /^\s*<think>[\s\S]*<\/think>\s*<answer>([^|<>]+)\|\s*(\d+)\s*<\/answer>\s*$/;

const isPlace = (value: unknown): value is number => Number.isSafeInteger(value);

/**
 * The clip range that AgenTracer's training narrows with time, never below a fifth of its start.
 *
 * Source: arXiv 2509.03312. Verified (text).
 * Kept: the floor of a fifth. Dropped: the trainer that uses it, GRPO without KL. Open: nothing known.
 * Run by hand: it is about a moment of a training run, and no episode holds one.
 */
export const agentracerClip = method({
  name: 'agentracer_clip',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  summary: 'b0 shrinking linearly over training, at least 0.2 · b0.',
  input: Type.Object({
    b0: Type.Number({ minimum: 0 }),
    step: Type.Number({ minimum: 0 }),
    total: Type.Number({ exclusiveMinimum: 0 }),
  }),
  run: ({ b0, step, total }): number => Math.max(0.2 * b0, b0 * (1 - step / total)),
});
