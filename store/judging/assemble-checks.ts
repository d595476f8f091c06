/** Whether a task configuration, and a run of it, may be used: checks, votes and states. */
import { runMethod } from '../methods/run.ts';
import { groupBy } from '../methods/statistics.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import { type EpisodeFacts, stepKey } from './facts.ts';
import { verdictOn } from './judgement.ts';
import { numberOf, truthsOn } from './named-feedback.ts';
import { onwardOf } from './over-episodes.ts';

const CHECKS = ['format_check', 'execution_check', 'policy_check'] as const;

/**
 * What was found about a blueprint is feedback on the episode that was made from it: `format_check`, `execution_check`, `policy_check`, and
 * a `vote` by each member of the committee (feedback of that name, or decisions of kind vote). A check that nobody made because an
 * earlier one failed was not passed; any other missing check leaves the blueprint undecided.
 */
const byChecks: Assemble = (method, params, facts) => {
  const checks = CHECKS.map((name) => truthsOn(facts.feedback, 'episode', name));
  return facts.episodes.map((episode) => {
    const said = checks.map((check) => check.get(stepKey(episode.episode_id, '')));
    const failed = said.indexOf(false);
    const lacking = said.indexOf(undefined);
    if (lacking >= 0 && (failed < 0 || lacking < failed)) return verdictOn(episode, null, `no_${CHECKS[lacking]}`);
    const votes = votesOn(facts, episode);
    if (failed < 0 && votes.length === 0) return verdictOn(episode, null, 'no_votes');
    const [format_ok, execution_ok, policy_ok] = said.map((one) => one === true);
    const input = { format_ok, execution_ok, policy_ok, votes, ...params };
    const output = runMethod(method, input) as { accept: boolean; stage: string };
    return verdictOn(episode, output.accept, output.accept ? null : output.stage, { ...output, votes });
  });
};

const YES: readonly unknown[] = [1, true, 'yes', 'accept'];
const NO: readonly unknown[] = [0, false, 'no', 'reject'];
const voteOf = (said: unknown): (0 | 1)[] => (YES.includes(said) ? [1] : NO.includes(said) ? [0] : []);

/** The last vote of each member; of nameless members every vote. */
function votesOn({ feedback, decisions }: Assembled, { episode_id }: EpisodeFacts): (0 | 1)[] {
  const said = (feedback.get(episode_id) ?? []).filter((one) => one.name === 'vote' && one.target_kind === 'episode');
  const decided = (decisions.get(episode_id) ?? []).filter(({ kind }) => kind === 'vote');
  const votes = [
    ...said.map((one, i) => ({ who: one.annotator ?? i, vote: voteOf(numberOf(one) ?? one.value_json ?? one.label) })),
    ...decided.map(({ by, decision }, i) => ({ who: by ?? said.length + i, vote: voteOf(decision) })),
  ].filter(({ vote }) => vote.length > 0);
  return [...groupBy(votes, ({ who }) => who).values()].flatMap((own) => own.at(-1)!.vote);
}

/**
 * The final state is that of the last observation with a state; the true state and the required outputs are the `state` and the `outputs`
 * of the task's reference, no outputs being none. Outputs of the agents are their messages, what was observed as `output`, and the answer.
 */
const byStates: Assemble = (method, params, facts) => {
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
    const keep = runMethod(method, {
      final_state: final.state,
      gold_state: state,
      gold_outputs: outputs.map(asText),
      agent_outputs: [...messages, ...shown, episode.answer].filter((text) => text !== null),
      ...params,
    }) as boolean;
    return verdictOn(episode, keep, keep ? null : 'other_state_or_outputs');
  });
};

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

export const CHECK_ASSEMBLERS: Assemblers = {
  'blueprint checks': { filter: { over: byChecks, reads: ['feedback', 'decisions'] } },
  'final state and true state': { filter: { over: byStates, reads: ['observations', 'content'] } },
};
