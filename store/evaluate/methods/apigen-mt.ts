/** APIGen-MT (arXiv 2504.03601): which tasks, and which runs of them, become training data. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { MAX_DEPTH, notJson } from '../../../ingest/events/json.ts';
import { type EpisodeFacts, stepKey } from '../judging/facts.ts';
import { verdictOn } from '../judging/judgement.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import { numberOf, truthsOn } from '../judging/named-feedback.ts';
import { onwardOf } from '../judging/over-episodes.ts';
import { method } from './method.ts';
import { refuseInput } from './refuse.ts';
import { Bit } from './shapes.ts';
import { sum } from './statistics.ts';

type Decision = {
  readonly accept: boolean;
  /** The stage that decided. */
  readonly stage: 'format' | 'execution' | 'policy' | 'committee';
};

/**
 * Whether a task configuration with its true actions may be used: checks in order, the first failure decides, then a committee votes.
 *
 * Source: APIGen-MT, arXiv 2504.03601. Verified (text) for the stages; strict majority, with a tie rejecting, is unverified.
 * The committee's votes and the second attempt of the generator are a model's work; only the decision is made here.
 * Kept: the order of the stages. Dropped: the reviewers and what they answer to the generator. Open: the majority and
 * its tie.
 */
export const apigenMtBlueprint = method({
  name: 'apigen_mt_blueprint',
  kind: 'filter',
  source: 'APIGen-MT: arXiv 2504.03601; stages verified (text), majority unverified',
  version: 1,
  summary: 'Accepts a task that passes the format, execution and policy checks and most of the committee.',
  teams: 'a committee that reviews tasks',
  input: Type.Object({
    format_ok: Type.Boolean(),
    execution_ok: Type.Boolean(),
    policy_ok: Type.Boolean(),
    votes: Type.Array(Bit),
  }),
  run: ({ format_ok, execution_ok, policy_ok, votes }): Decision => {
    if (!format_ok) return { accept: false, stage: 'format' };
    if (!execution_ok) return { accept: false, stage: 'execution' };
    if (!policy_ok) return { accept: false, stage: 'policy' };
    return { accept: 2 * sum(votes) > votes.length, stage: 'committee' };
  },
  judged: {
    reads: ['feedback', 'decisions'],
    /**
     * What was found about a blueprint is feedback on the episode that was made from it: `format_check`, `execution_check`, `policy_check`, and
     * a `vote` by each member of the committee (feedback of that name, or decisions of kind vote). A check that nobody made because an
     * earlier one failed was not passed; any other missing check leaves the blueprint undecided.
     */
    rows: (facts, ask) => {
      const checks = CHECKS.map((name) => truthsOn(facts.feedback, 'episode', name));
      return facts.episodes.map((episode) => {
        const checked = checks.map((check) => check.get(stepKey(episode.episode_id, '')));
        const failed = checked.indexOf(false);
        const lacking = checked.indexOf(undefined);
        if (lacking >= 0 && (failed < 0 || lacking < failed)) return verdictOn(episode, null, `no_${CHECKS[lacking]}`);
        const votes = votesOn(facts, episode);
        if (failed < 0 && votes.length === 0) return verdictOn(episode, null, 'no_votes');
        const [format_ok, execution_ok, policy_ok] = checked.map((one) => one === true) as [boolean, boolean, boolean];
        const output = ask.run({ format_ok, execution_ok, policy_ok, votes });
        return verdictOn(episode, output.accept, output.accept ? null : output.stage, { ...output, votes });
      });
    },
  },
});

const CHECKS = ['format_check', 'execution_check', 'policy_check'] as const;

const YES: readonly unknown[] = [1, true, 'yes', 'accept'];

const NO: readonly unknown[] = [0, false, 'no', 'reject'];

const voteOf = (vote: unknown): (0 | 1)[] => (YES.includes(vote) ? [1] : NO.includes(vote) ? [0] : []);

/** The last vote of each member; of nameless members every vote. */
function votesOn({ feedback, decisions }: MethodFacts, { episode_id }: EpisodeFacts): (0 | 1)[] {
  const voted = (feedback.get(episode_id) ?? []).filter((one) => one.name === 'vote' && one.target_kind === 'episode');
  const decided = (decisions.get(episode_id) ?? []).filter(({ kind }) => kind === 'vote');
  const votes = [
    ...voted.map((one, i) => ({ who: one.annotator ?? i, vote: voteOf(numberOf(one) ?? one.value_json ?? one.label) })),
    ...decided.map(({ by, decision }, i) => ({ who: by ?? voted.length + i, vote: voteOf(decision) })),
  ].filter(({ vote }) => vote.length > 0);
  return [...groupBy(votes, ({ who }) => who).values()].flatMap((own) => own.at(-1)!.vote);
}

/**
 * Whether a simulated run did what the task's true actions do: the same final state, and every required output in its messages.
 *
 * Source: APIGen-MT, arXiv 2504.03601. Verified (text). States are compared as JSON, whatever the order of their keys.
 * Kept: both conditions. Dropped: the simulated human and the environment. Open: whether an output must appear word
 * for word: here it must be one of those given.
 */
export const apigenMtTrajectory = method({
  name: 'apigen_mt_trajectory',
  kind: 'filter',
  source: 'APIGen-MT: arXiv 2504.03601; verified (text)',
  version: 1,
  summary: 'Keeps a run that reaches the true final state and says every required output.',
  input: Type.Object({
    final_state: Type.Unknown(),
    gold_state: Type.Unknown(),
    gold_outputs: Type.Array(Type.String()),
    agent_outputs: Type.Array(Type.String()),
  }),
  run: ({ final_state, gold_state, gold_outputs, agent_outputs }): boolean => {
    requireJson('final_state', final_state);
    requireJson('gold_state', gold_state);
    return jsonEqual(final_state, gold_state) && gold_outputs.every((output) => agent_outputs.includes(output));
  },
  judged: {
    reads: ['observations', 'content'],
    /**
     * The final state is that of the last observation with a state; the true state and the required outputs are the `state` and the `outputs`
     * of the task's reference, no outputs being none. Outputs of the agents are their messages, what was observed as `output`, and the answer.
     */
    rows: (facts, ask) => {
      const steps = groupBy(facts.steps, (step) => step.episode_id);
      return facts.episodes.map((episode) => {
        const seen = facts.observations.get(episode.episode_id) ?? [];
        const final = seen.findLast(({ state }) => state !== null);
        if (final === undefined) return verdictOn(episode, null, 'no_final_state');
        const { state, outputs = [] } = (episode.reference ?? {}) as { state?: unknown; outputs?: unknown };
        if (state === undefined || state === null) return verdictOn(episode, null, 'no_true_state');
        if (!Array.isArray(outputs)) return verdictOn(episode, null, 'unreadable_outputs');
        const messages = onwardOf(steps.get(episode.episode_id) ?? []).map((step) => facts.contentOf(step).text);
        const shown = seen
          .filter(({ kind, content }) => kind === 'output' && content !== null)
          .map(({ content }) => asText(content));
        const keep = ask.run({
          final_state: final.state,
          gold_state: state,
          gold_outputs: outputs.map(asText),
          agent_outputs: [...messages, ...shown, episode.answer].filter((text) => text !== null),
        });
        return verdictOn(episode, keep, keep ? null : 'other_state_or_outputs');
      });
    },
  },
});

function requireJson(field: string, state: unknown): void {
  const refusal = notJson(state, field, MAX_DEPTH);
  if (refusal !== null) refuseInput(refusal.field, refusal.expected, refusal.got);
}

function jsonEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && jsonEqual(left[key], right[key]))
  );
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
