/** Rewards of teams whose roles are fixed: what each role earns goes to every step that the episode went on from in that role. */
import type { Assemble, Assemblers } from './assembler.ts';
import { type StepFacts, stepKey } from './facts.ts';
import { type Judgement, reward } from './judgement.ts';
import { numbersOn, truthsOn } from './named-feedback.ts';
import { answerTo, onwardOf, overEpisodes } from './over-episodes.ts';

/** A row for every step: those whose role earned something have it, the others say why not. */
function byRole(steps: readonly StepFacts[], rewards: Readonly<Record<string, number>> | string): Judgement[] {
  const onward = new Set(onwardOf(steps));
  return steps.map((step) => {
    if (typeof rewards === 'string') return reward(step, null, rewards);
    if (step.role === null || !Object.hasOwn(rewards, step.role)) return reward(step, null, 'other_role');
    return onward.has(step) ? reward(step, rewards[step.role] ?? null, null) : reward(step, null, 'not_chosen');
  });
}

/**
 * MMOA-RAG. Subquestions are the lines of the rewriter; `f1` is feedback on the episode; how many documents could be selected is the
 * length of the list that an observation named `documents` holds.
 */
const byRetrieval: Assemble = (method, params, facts) => {
  const f1s = numbersOn(facts.feedback, 'episode', 'f1');
  return overEpisodes(method, facts, (episode, steps) => {
    const said = (role: string) => {
      const last = onwardOf(steps).findLast((step) => step.role === role);
      return last === undefined ? null : facts.contentOf(last).text;
    };
    const [rewriter, selector, generator] = [said('rewriter'), said('selector'), said('generator')];
    const documents = facts.observations
      .get(episode.episode_id)
      ?.findLast(({ kind, content }) => kind === 'documents' && Array.isArray(content))?.content as
      | unknown[]
      | undefined;
    const f1 = f1s.get(stepKey(episode.episode_id, ''));
    if (f1 === undefined) return 'no_f1';
    if (rewriter === null) return 'no_rewriter';
    if (selector === null) return 'no_selector';
    if (generator === null) return 'no_generator';
    if (documents === undefined) return 'no_documents';
    const lines = rewriter.split('\n').map((line) => line.trim());
    const subquestions = lines.filter((line) => line !== '');
    const input = { f1, subquestions, selector: selector.trim(), k: documents.length, answer: generator };
    return byRole(steps, answerTo<Record<string, number>>(method, { ...input, ...params }));
  });
};

/** MarsRL. Who verifies before anybody solved, or does not say what it found, verifies nothing. */
const bySolutions: Assemble = (method, params, facts) => {
  const correct = truthsOn(facts.feedback, 'step', 'correct');
  const flags = truthsOn(facts.feedback, 'step', 'flags_error');
  return overEpisodes(method, facts, (_, steps) => {
    const onward = new Set(onwardOf(steps));
    const reasons = new Map<StepFacts, string>();
    const rows: { step: StepFacts; row: object }[] = [];
    for (const step of steps) {
      const key = stepKey(step.episode_id, step.step_id);
      if (!onward.has(step)) reasons.set(step, 'not_chosen');
      else if (step.role === 'solver' || step.role === 'corrector')
        rows.push({ step, row: { role: step.role, correct: correct.get(key) ?? null } });
      else if (step.role !== 'verifier') reasons.set(step, 'other_role');
      else if (rows.length === 0) reasons.set(step, 'nothing_to_verify');
      else if (!flags.has(key)) reasons.set(step, 'no_flag');
      else rows.push({ step, row: { role: 'verifier', flags_error: flags.get(key) } });
    }
    const output = answerTo<(number | null)[]>(method, { steps: rows.map(({ row }) => row), ...params });
    if (typeof output === 'string') return output;
    const values = new Map(rows.map(({ step }, i) => [step, output[i] ?? null]));
    return steps.map((step) => {
      const value = values.get(step) ?? null;
      return reward(step, value, reasons.get(step) ?? (value === null ? 'not_graded' : null));
    });
  });
};

/**
 * ReMA. A role finished when each of its calls stopped by itself, which is asked for only where unfinished roles are masked. The
 * number of turns is the episode's budget `max_turns`. The source puts a role's reward on its last turn; here it is copied to all.
 */
const byOutcome: Assemble = (method, params, facts) =>
  overEpisodes(method, facts, (episode, steps) => {
    if (episode.reward === null) return 'missing_reward';
    const max_turns = episode.budgets?.max_turns;
    if (!Number.isInteger(max_turns)) return 'no_max_turns';
    const onward = onwardOf(steps);
    const ofRole = (role: string) => onward.filter((step) => step.role === role);
    const [thinking, reasoning] = [ofRole('meta-thinking'), ofRole('reasoning')];
    if (thinking.length === 0 || reasoning.length === 0) return 'no_such_roles';
    const endOf = (step: StepFacts) => facts.contentOf(step).finish_reason ?? null;
    if (params.mask_unfinished && [...thinking, ...reasoning].some((step) => endOf(step) === null))
      return 'no_finish_reason';
    const ended = (own: readonly StepFacts[]) => own.every((step) => [null, 'stop', 'tool_call'].includes(endOf(step)));
    const input = {
      score: episode.reward,
      finished: { 'meta-thinking': ended(thinking), reasoning: ended(reasoning) },
      max_turns,
      boxed: reasoning.some((step) => facts.contentOf(step).text?.includes('boxed') ?? false),
    };
    return byRole(steps, answerTo<Record<string, number>>(method, { ...input, ...params }));
  });

const writes = ['rewards', 'scores'] as const;
export const ROLE_ASSEMBLERS: Assemblers = {
  'retrieval roles': { reward: { over: byRetrieval, reads: ['content', 'feedback', 'observations'], writes } },
  'solutions and verdicts': { reward: { over: bySolutions, reads: ['feedback'], writes } },
  'outcome and roles': { reward: { over: byOutcome, reads: ['content'], writes } },
};
